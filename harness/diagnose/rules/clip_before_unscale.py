"""Gradient clipping that sees gradients still multiplied by the loss scale."""

from __future__ import annotations

from harness.diagnose.base import Match, Rule, under_a_scaler
from harness.diagnose.observations import Observations

BOUND = 0.5
"""The order is the same in every step of a loop: the share is 0 or 1, or between the two only with mixed code paths."""


def judge(observations: Observations) -> Match | None:
    """Count the clips that came before unscale_."""
    if not observations.at_least("clips_before_unscale_share", BOUND):
        return None
    norm, scale = observations.number("grad_norm_median") or 0.0, observations.number("final_loss_scale") or 1.0
    return Match(
        confidence=0.95,
        summary=(
            f"Gradients are clipped before scaler.unscale_: the threshold meets "
            f"gradients that are {scale:g} times too large, and the optimizer gets a norm of {norm:.2g}."
        ),
        evidence=[
            observations.evidence("clips_before_unscale_share", f">= {BOUND}"),
            observations.context("grad_norm_median"),
            observations.context("final_loss_scale"),
        ],
        confirm=(
            "Switch clipping off for one short run: the gradient norm at the step must rise by about the loss scale."
        ),
        action=(
            f"Call scaler.unscale_(optimizer) before the clip{observations.at('clip_site')}, then scaler.step and "
            "scaler.update."
        ),
    )


RULE = Rule(
    category="precision",
    applies=under_a_scaler,
    gate=("scaled_attempts",),
    needs=("clips_before_unscale_share",),
    judge=judge,
    site="clip_site",
)
