"""Gradients that are divided by the loss scale a second time after unscale_."""

from __future__ import annotations

from harness.diagnose.base import Match, Rule, under_a_scaler
from harness.diagnose.observations import Observations

BOUND = 0.5
"""Nothing but unscaling and clipping may change the norm: 1 within rounding."""

FACTOR = 10.0
"""The scale moves during a run and the ratio is a median: within a factor of ten it is the scale, beyond it is not."""


def possible(observations: Observations) -> bool:
    """A live scale, a norm to compare with, and no clip of scaled gradients, which shrinks the norm too."""
    early = observations.at_least("clips_before_unscale_share", BOUND)
    early = early or (observations.number("fixed_scaled_norm") or 0.0) > 0.0
    unknown = observations.is_told("step_norm_ratio") and not observations.has("step_norm_ratio")
    return under_a_scaler(observations) and not unknown and not early


def judge(observations: Observations) -> Match | None:
    """Compare the norm at the step with the norm that unscaling and clipping must have left."""
    ratio = observations.number("step_norm_ratio") or 0.0
    scale = observations.number("final_loss_scale") or 1.0
    if not ratio < BOUND or not 1 / FACTOR < ratio * scale < FACTOR:
        return None
    return Match(
        confidence=0.95,
        summary=(
            f"The optimizer gets gradients whose norm is {ratio:.2g} of what unscaling and clipping leave; the loss "
            f"scale is {scale:g}, and its inverse {1 / scale:.2g}: they are divided by the scale a second time."
        ),
        evidence=[
            observations.evidence("step_norm_ratio", f"< {BOUND}"),
            observations.evidence("final_loss_scale", f"within a factor of {FACTOR:g} of {1 / ratio:.3g}"),
        ],
        confirm="Run once in bf16, where the scale is 1: the norm at the step must be what clipping leaves.",
        action="Unscale once: drop the division by hand, or the unscale_ when a fused optimizer divides by itself.",
    )


RULE = Rule(
    category="precision",
    applies=possible,
    gate=("scaled_attempts", "clips_before_unscale_share"),
    needs=("step_norm_ratio",),
    judge=judge,
    site="unscale_site",
)
