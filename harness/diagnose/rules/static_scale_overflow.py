"""A loss scale that is too large and never backs off: step after step is skipped."""

from __future__ import annotations

from harness.diagnose.base import Match, Rule, under_a_scaler
from harness.diagnose.observations import Observations

BOUND = 0.2
"""In the second half of a run dynamic scaling skips about one step in growth_interval (2000 by default)."""


MOVES = 0.05
"""Back-offs per skipped step up to which the scale counts as fixed; a dynamic one backs off at each of them."""


def judge(observations: Observations) -> Match | None:
    """Skips go on, the forward pass is finite, and the scale has not moved."""
    skips = observations.number("skipped_steps") or 0.0
    moved = (observations.number("scale_backoffs") or 0.0) > MOVES * skips
    forward_is_lost = observations.at_least("nonfinite_loss_share", BOUND / 2)
    if not observations.at_least("skipped_share_late", BOUND) or moved or forward_is_lost:
        return None
    return Match(
        confidence=0.9,
        summary=(
            f"{skips:.0f} steps were skipped, {observations.number('skipped_share_late') or 0:.0%} of the "
            "second half, while "
            f"the loss scale stayed at {observations.number('final_loss_scale') or 0:g}: scaled gradients "
            "overflow fp16."
        ),
        evidence=[
            observations.evidence("skipped_share_late", f">= {BOUND}"),
            observations.evidence("scale_backoffs", f"<= {MOVES * skips:g}"),
            observations.context("final_loss_scale"),
        ],
        confirm="Run once in bf16, which needs no scale: no step may be skipped.",
        action="Use dynamic loss scaling (GradScaler as it comes), or a smaller fixed scale such as 1024.",
    )


RULE = Rule(
    category="precision",
    applies=under_a_scaler,
    gate=("scaled_attempts",),
    needs=("skipped_share_late", "nonfinite_loss_share"),
    judge=judge,
    site="scaler_site",
)
