"""A resume after which the loss scale starts over, because the checkpoint lacks the scaler's state."""

from __future__ import annotations

from harness.diagnose.base import Rule, under_a_scaler
from harness.diagnose.finding import Finding
from harness.diagnose.observations import Observations

BOUND = 0.5
"""Octaves. The scale moves in factors of two, and a restored one does not move at all."""


def judge(observations: Observations) -> Finding | None:
    """Compare the scale at the save with the one after the resume."""
    if not observations.at_least("scale_shift_at_resume", BOUND):
        return None
    return Finding(
        category="precision",
        cause="scaler_state_lost",
        confidence=0.95,
        summary=(
            f"At the resume the loss scale jumped by a factor of "
            f"2^{observations.number('scale_shift_at_resume'):g}: it "
            "started over instead of continuing, and steps are skipped until it is found again."
        ),
        evidence=[
            observations.evidence("scale_shift_at_resume", f">= {BOUND}"),
            observations.evidence("skipped_steps", "more than before the resume"),
        ],
        confirm="Run the same steps without the interruption: the scale must not jump.",
        action="Save scaler.state_dict() in the checkpoint and call scaler.load_state_dict() when resuming.",
    )


RULE = Rule(
    category="precision",
    applies=under_a_scaler,
    gate=("scaled_attempts",),
    needs=("scale_shift_at_resume",),
    judge=judge,
)
