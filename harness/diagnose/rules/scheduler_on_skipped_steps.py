"""A learning-rate schedule that also advances when the scaler skipped the step."""

from __future__ import annotations

from harness.diagnose.base import Match, Rule, under_a_scaler
from harness.diagnose.observations import Observations

BOUND = 0.01
"""Below one per cent of the steps the schedule is ahead by less than a usual warm-up is uncertain."""

LEAST = 5
"""Advances: 65536, where GradScaler begins, is lowered a few times before the first step of many healthy runs."""


def possible(observations: Observations) -> bool:
    """Under a live scaler, or where a loop throws gradients away by itself."""
    return under_a_scaler(observations) or (observations.number("discarded_leads") or 0.0) > 0


def judge(observations: Observations) -> Match | None:
    """Count schedule steps in attempts that were not taken."""
    by_hand = not under_a_scaler(observations)
    share, count = ("discarded_lead_share", "discarded_leads") if by_hand else ("schedule_lead_share", "schedule_lead")
    if not observations.at_least(share, BOUND) or not observations.at_least(count, LEAST):
        return None
    skipped = "whose gradients were thrown away" if by_hand else "that the scaler had skipped"
    steps = observations.number("scheduler_steps") or 0.0
    of = f"{steps:.0f} schedule steps for {observations.run.summary.get('optimizer_steps')} optimizer steps, so "
    return Match(
        confidence=0.9,
        summary=(
            f"The schedule advanced {observations.number(count):.0f} times in steps {skipped}: "
            f"{of if steps else ''}warm-up and decay run ahead."
        ),
        evidence=[
            observations.evidence(share, f">= {BOUND}"),
            observations.evidence(count, f">= {LEAST}"),
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
    applies=possible,
    gate=("scaled_attempts",),
    needs=("schedule_lead_share",),
    judge=judge,
    sites=("schedule_site", "scaler_site"),
)
