"""Parameters that get no gradient under autocast although they get one in fp32."""

from __future__ import annotations

from harness.diagnose.base import Rule
from harness.diagnose.finding import Finding
from harness.diagnose.observations import Observations

BOUND = 0.001
"""An exact count of elements; a thousandth leaves room for a single bias."""


def possible(observations: Observations) -> bool:
    """Some trainable parameters have no gradient at all."""
    return observations.at_least("missing_grad_share", BOUND)


def judge(observations: Observations) -> Finding | None:
    """Compare with the fp32 twin: unused heads have no gradient there either."""
    if not observations.at_least("missing_grad_excess", BOUND):
        return None
    return Finding(
        category="precision",
        cause="autocast_cache_no_grad",
        confidence=0.9,
        summary=(
            f"{observations.number('missing_grad_excess') or 0:.0%} of the trainable weights get no gradient under "
            "autocast although they get one in fp32: those layers use half copies without gradient history and never "
            "learn."
        ),
        evidence=[
            observations.evidence("missing_grad_excess", f">= {BOUND}"),
            observations.evidence("missing_grad_share", "as in fp32"),
        ],
        confirm="Run once in fp32: the same parameters must get a gradient.",
        action=(
            "Do not share one autocast region between a no_grad pass and a training pass; call "
            "torch.clear_autocast_cache() in between or use autocast(cache_enabled=False)."
        ),
    )


RULE = Rule(
    category="precision", applies=possible, gate=("missing_grad_share",), needs=("missing_grad_excess",), judge=judge
)
