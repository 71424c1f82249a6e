"""A loss scale that is too large and never backs off: step after step is skipped."""

from __future__ import annotations

from harness.diagnose.base import Match, Rule, in_fp16, under_a_scaler
from harness.diagnose.observations import Observations

BOUND = 0.2
"""In the second half of a run dynamic scaling skips about one step in growth_interval (2000 by default)."""


MOVES = 0.05
"""Back-offs per skipped step up to which the scale counts as fixed; a dynamic one backs off at each of them."""


def possible(observations: Observations) -> bool:
    """Under a live scaler, or where fp16 may be scaled by hand."""
    return under_a_scaler(observations) or in_fp16(observations)


def judge(observations: Observations) -> Match | None:
    """Skips go on, the forward pass is finite, and the scale has not moved."""
    if observations.at_least("nonfinite_loss_share", BOUND / 2):
        return None
    if not under_a_scaler(observations):
        return _thrown_away(observations)
    skips = observations.number("skipped_steps") or 0.0
    moved = (observations.number("scale_backoffs") or 0.0) > MOVES * skips
    if not observations.at_least("skipped_share_late", BOUND) or moved:
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


def _thrown_away(observations: Observations) -> Match | None:
    """Without a GradScaler: finite losses, and gradients that are not, whether they are thrown away or made 0."""
    forms = {
        "discarded_share_late": "of the late backward passes leave gradients that are not finite, and no step follows",
        "lost_backward_share": "of the backward passes leave gradients that are not finite, and these are mended",
    }
    name = next((name for name in forms if observations.at_least(name, BOUND)), None)
    if name is None:
        return None
    return Match(
        confidence=0.8,
        summary=(
            f"{observations.number(name) or 0:.0%} {forms[name]}, although the losses are finite: a loss scale that is "
            "applied by hand is too large and stays so."
        ),
        evidence=[
            observations.evidence(name, f">= {BOUND}"),
            observations.evidence("nonfinite_loss_share", f"< {BOUND / 2}"),
            observations.context("attempted_steps"),
        ],
        confirm="Run once in bf16, or with a scale of 1: all gradients must be finite.",
        action="Lower the scale whenever gradients are not finite, as torch.amp.GradScaler does, or use that.",
    )


RULE = Rule(
    category="precision",
    applies=possible,
    gate=("scaled_attempts", "train_formats"),
    needs=("nonfinite_loss_share",),
    judge=judge,
    sites=("scaler_site", "backward_site"),
)
