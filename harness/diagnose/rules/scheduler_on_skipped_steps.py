"""A learning-rate schedule that also advances when the scaler skipped the step."""

from __future__ import annotations

from harness.diagnose.base import Match, Rule, under_a_scaler
from harness.diagnose.observations import Observations

BOUND = 0.01
"""Below one per cent of the steps the schedule is ahead by less than a usual warm-up is uncertain."""


def judge(observations: Observations) -> Match | None:
    """Count schedule steps in attempts that were not taken."""
    if not observations.at_least("schedule_lead_share", BOUND):
        return None
    return Match(
        confidence=0.9,
        summary=(
            f"The schedule advanced {observations.run.summary.get('schedule_lead')} times in steps that the scaler had "
            f"skipped: {observations.run.summary.get('scheduler_steps')} schedule steps for "
            f"{observations.run.summary.get('optimizer_steps')} optimizer steps, so warm-up and decay run ahead."
        ),
        evidence=[
            observations.evidence("schedule_lead_share", f">= {BOUND}"),
            observations.context("skipped_steps"),
        ],
        confirm="Start with a loss scale of 128: without skipped steps the two counts must agree.",
        action=(
            "Compare scaler.get_scale() before and after scaler.update(); call "
            f"scheduler.step(){observations.at('schedule_site')} only when it did not fall."
        ),
    )


RULE = Rule(
    category="precision",
    applies=under_a_scaler,
    gate=("scaled_attempts",),
    needs=("schedule_lead_share",),
    judge=judge,
    site="schedule_site",
)
