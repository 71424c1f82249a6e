"""A live loss scaler although nothing is computed in fp16."""

from __future__ import annotations

from harness.diagnose.base import Match, Rule, under_a_scaler
from harness.diagnose.observations import Observations

BOUND = 0.5
"""An exact count: 0 or 1, in between only when the loop switches formats."""


def judge(observations: Observations) -> Match | None:
    """Count attempts under a live scale without fp16 products."""
    if not observations.at_least("needless_scaled_share", BOUND):
        return None
    return Match(
        confidence=0.95,
        summary=(
            f"A GradScaler is active although the model computes in "
            f"{observations.text('train_formats')}: bf16 and fp32 share their exponent range, so scaling "
            "gains nothing, costs a check of every gradient, and can skip steps."
        ),
        evidence=[
            observations.evidence("needless_scaled_share", f">= {BOUND}"),
            observations.evidence("train_formats", "no float16"),
            observations.context("skipped_steps"),
        ],
        confirm="Run once without the scaler: the loss curve must be the same and the step a little faster.",
        action="Remove the scaler, or construct it with enabled=False unless the format is float16.",
    )


RULE = Rule(
    category="precision",
    applies=under_a_scaler,
    gate=("scaled_attempts",),
    needs=("needless_scaled_share",),
    judge=judge,
    optional=True,  # what is compiled does not show its formats, and a needless scaler does little harm
    sites=("scaler_site",),
)
