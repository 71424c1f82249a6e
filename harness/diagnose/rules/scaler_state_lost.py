"""A resume after which the loss scale starts over, because the checkpoint lacks the scaler's state."""

from __future__ import annotations

from harness.diagnose.base import Match, Rule, under_a_scaler
from harness.diagnose.observations import Observations

BOUND = 0.5
"""Octaves. The scale moves in factors of two, and a restored one does not move at all."""


def judge(observations: Observations) -> Match | None:
    """Look for a resume that brings the optimizer back but not the scale, or after which the scale is another one."""
    jumped = observations.at_least("scale_shift_at_resume", BOUND)
    fresh = observations.at_least("fresh_scaler_resumes", 1)
    if not jumped and not fresh:
        return None
    told = (
        f"At the resume the loss scale jumped by a factor of 2^{observations.number('scale_shift_at_resume'):g}"
        if jumped
        else "The optimizer's state was restored, and a new loss scaler took its steps"
    )
    return Match(
        confidence=0.95 if jumped else 0.85,
        summary=f"{told}: the scale started over instead of continuing, and steps are skipped until it is found again.",
        evidence=[
            *([observations.evidence("scale_shift_at_resume", f">= {BOUND}")] if jumped else []),
            *([observations.evidence("fresh_scaler_resumes", ">= 1")] if fresh else []),
            observations.context("skipped_steps"),
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
    site="scaler_site",
)
