"""A resume after which the loss scale starts over, because the checkpoint lacks the scaler's state."""

from __future__ import annotations

from harness.diagnose.base import Match, Rule, under_a_scaler
from harness.diagnose.observations import Observations

BOUND = 0.5
"""Octaves. The scale moves in factors of two, and a restored one does not move at all."""


REPLACED = 2
"""Scalers that took over: one may begin another phase of the training, two are made again and again."""


def judge(observations: Observations) -> Match | None:
    """Look for a resume that brings the optimizer back but not the scale, or for scalers that are made anew."""
    jumped = observations.at_least("scale_shift_at_resume", BOUND)
    fresh = observations.at_least("fresh_scaler_resumes", 1)
    replaced = observations.at_least("replaced_scalers", REPLACED)
    if jumped:
        octaves = observations.number("scale_shift_at_resume")
        told, confidence = f"At the resume the loss scale jumped by a factor of 2^{octaves:g}", 0.95
    elif fresh:
        told, confidence = "The optimizer's state was restored, and a new loss scaler took its steps", 0.85
    elif replaced:
        times = observations.number("replaced_scalers")
        told, confidence = f"A new loss scaler took over the same optimizer {times:.0f} times, at another scale", 0.85
    else:
        return None
    return Match(
        confidence=confidence,
        summary=f"{told}: the scale started over instead of continuing, and steps are skipped until it is found again.",
        evidence=[
            *([observations.evidence("scale_shift_at_resume", f">= {BOUND}")] if jumped else []),
            *([observations.evidence("fresh_scaler_resumes", ">= 1")] if fresh else []),
            *([observations.evidence("replaced_scalers", f">= {REPLACED}")] if replaced else []),
            observations.context("skipped_steps"),
        ],
        confirm="Run the same steps without the interruption: the scale must not jump.",
        action=(
            "Make one scaler before the loop and keep it."
            if replaced and not (jumped or fresh)
            else "Save scaler.state_dict() in the checkpoint and call scaler.load_state_dict() when resuming."
        ),
    )


RULE = Rule(
    category="precision",
    applies=under_a_scaler,
    gate=("scaled_attempts",),
    needs=("scale_shift_at_resume",),
    judge=judge,
    sites=("scaler_site",),
)
