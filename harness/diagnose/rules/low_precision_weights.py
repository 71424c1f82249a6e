"""Weights held in 16 bits without fp32 master weights, whose updates round away."""

from __future__ import annotations

from harness.diagnose.base import Rule
from harness.diagnose.finding import Finding
from harness.diagnose.observations import Observations

BOUND = 0.30
"""Measured: 0.8 to 0.99 in pure bf16 at usual learning rates against below 0.001 with fp32 weights."""


def possible(observations: Observations) -> bool:
    """Some trainable weights are in a 16-bit format."""
    return (observations.number("half_weight_share") or 0.0) > 0.0


def judge(observations: Observations) -> Finding | None:
    """Look at the 16-bit weights that a step left unchanged although their gradient is not zero."""
    if not observations.at_least("stalled_half_share", BOUND):
        return None
    share = observations.number("stalled_half_share") or 0.0
    return Finding(
        category="precision",
        cause="low_precision_weights",
        confidence=0.95 if share > 2 * BOUND else 0.8,
        summary=(
            f"The optimizer updates weights in {observations.text('weight_dtypes')}, and {share:.0%} of those with a "
            "non-zero gradient stay bitwise the same in a step: the update is below half of the format's spacing."
        ),
        evidence=[
            observations.evidence("stalled_half_share", f">= {BOUND}"),
            observations.evidence("half_weight_share", "> 0"),
            observations.evidence("weight_dtypes", "bfloat16 or float16"),
        ],
        confirm="Run once with a ten times larger learning rate: the stalled share must fall clearly.",
        action=(
            "Keep the weights and the optimizer state in fp32 (drop model.bfloat16() or .half()) and compute "
            "under autocast."
        ),
    )


RULE = Rule(
    category="precision", applies=possible, gate=("half_weight_share",), needs=("stalled_half_share",), judge=judge
)
