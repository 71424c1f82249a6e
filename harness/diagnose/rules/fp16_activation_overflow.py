"""An activation beyond 65504, the largest fp16 number, and steps lost because of it."""

from __future__ import annotations

from harness.diagnose.base import Rule, in_fp16
from harness.diagnose.finding import Finding
from harness.diagnose.observations import Observations

LOST = 0.05
"""Share of skipped steps in the second half from which an overflow counts: a mask of -inf loses none."""


def judge(observations: Observations) -> Finding | None:
    """A module's fp16 output is not finite in training, and updates are lost."""
    module = observations.text("overflow_module")
    lost = observations.at_least("skipped_share_late", LOST) or not observations.loss_is_finite
    if not module or not lost or _reference_is_lost_too(observations):
        return None
    return Finding(
        category="precision",
        cause="fp16_activation_overflow",
        confidence=0.9,
        summary=(
            f"The output of {module} is not finite in fp16 from step "
            f"{observations.run.summary.get('overflow_step')} on; "
            "the largest fp16 number is 65504. The loss scale cannot help, the forward pass itself overflows."
        ),
        evidence=[
            observations.evidence("overflow_module", "output not finite"),
            observations.evidence("activation_range_used", ">= 1"),
            observations.evidence("skipped_share_late", f">= {LOST}"),
        ],
        confirm="Run once in bf16, which has the range of fp32: the loss must be finite.",
        action=(
            f"Compute {module} in fp32 (an autocast(enabled=False) island), or train in bf16. Clamping only hides it."
        ),
    )


def _reference_is_lost_too(observations: Observations) -> bool:
    return observations.reference is not None and observations.reference.state == "diverged"


RULE = Rule(category="precision", applies=in_fp16, needs=("activation_range_used",), judge=judge)
