"""Parameters that get no gradient under autocast although they get one in fp32."""

from __future__ import annotations

from harness.diagnose.base import Match, Rule
from harness.diagnose.observations import Observations

BOUND = 0.001
"""An exact count of elements; a thousandth leaves room for a single bias."""


def possible(observations: Observations) -> bool:
    """Weights of modules that take part in training in 16 bits get no gradient; an unused head takes no part."""
    is_16_bit = not {"float16", "bfloat16"}.isdisjoint(observations.text("train_formats").split(","))
    return is_16_bit and observations.at_least("unreached_weight_share", BOUND)


def judge(observations: Observations) -> Match | None:
    """Compare with the fp32 twin: unused heads have no gradient there either."""
    if not observations.at_least("missing_grad_excess", BOUND):
        return None
    return Match(
        confidence=0.9,
        summary=(
            f"{observations.number('missing_grad_excess') or 0:.0%} of the trainable weights get no gradient under "
            "autocast although they get one in fp32: those layers use half copies without gradient history and never "
            "learn."
        ),
        evidence=[
            observations.evidence("missing_grad_excess", f">= {BOUND}"),
            observations.evidence("missing_grad_share", f">= {BOUND}"),
        ],
        confirm="Run once in fp32: the same parameters must get a gradient.",
        action=(
            "Do not share one autocast region between a no_grad pass and a training pass; call "
            "torch.clear_autocast_cache() in between or use autocast(cache_enabled=False)."
        ),
    )


RULE = Rule(
    category="precision",
    applies=possible,
    gate=("train_formats", "unreached_weight_share"),
    needs=("missing_grad_excess",),
    judge=judge,
)
