"""Gradient clipping that sees gradients still multiplied by the loss scale."""

from __future__ import annotations

import math

from harness.diagnose.base import Match, Rule, in_fp16, under_a_scaler
from harness.diagnose.finding import Evidence
from harness.diagnose.observations import Observations

BOUND = 0.5
"""The order is the same in every step of a loop: the share is 0 or 1, or between the two only with mixed code paths."""

LEAST_SCALE = 64.0
"""Factor from which a division after the clip is that of a loss scale: static scales are 128 and more (apex's default),
averages over ranks or micro-batches are less."""

EXACT = 0.01
"""Octaves within which a factor is a power of two, as loss scales are."""


def possible(observations: Observations) -> bool:
    """Under a live scaler, or where fp16 may be scaled by hand."""
    return under_a_scaler(observations) or in_fp16(observations)


def judge(observations: Observations) -> Match | None:
    """Count the clips that came before unscale_; look for clips that torch does not know of."""
    scale = observations.number("final_loss_scale") or 1.0
    if not under_a_scaler(observations):
        return _scaled_by_hand(observations)
    if observations.at_least("clips_before_unscale_share", BOUND):
        seen = observations.evidence("clips_before_unscale_share", f">= {BOUND}")
        return _match(observations, 0.95, scale, seen, "Call scaler.unscale_(optimizer) before the clip")
    if (observations.number("fixed_scaled_norm") or 0.0) > 0.0:
        seen = observations.evidence("fixed_scaled_norm", "> 0")
        return _match(observations, 0.8, scale, seen, "Call scaler.unscale_(optimizer) before clipping by hand")
    return None


def _scaled_by_hand(observations: Observations) -> Match | None:
    """Find a division by a power of two between the clip and the step, where no GradScaler divides."""
    ratio = observations.number("step_norm_ratio") or 1.0
    if not 0.0 < ratio * LEAST_SCALE <= 1.0 or abs(math.log2(ratio) - round(math.log2(ratio))) > EXACT:
        return None
    seen = observations.evidence("step_norm_ratio", f"<= 1/{LEAST_SCALE:g}, a power of two")
    return _match(observations, 0.7, 1 / ratio, seen, "Divide the gradients by the scale before the clip")


def _match(observations: Observations, confidence: float, scale: float, seen: Evidence, action: str) -> Match:
    norm = observations.number("grad_norm_median") or 0.0
    return Match(
        confidence=confidence,
        summary=(
            f"Gradients are clipped while they are still multiplied by the loss scale: the threshold meets gradients "
            f"that are {scale:g} times too large, and the optimizer gets a norm of {norm:.2g}."
        ),
        evidence=[seen, observations.context("grad_norm_median"), observations.context("final_loss_scale")],
        confirm=(
            "Switch clipping off for one short run: the gradient norm at the step must rise by about the loss scale."
        ),
        action=f"{action}{observations.at('clip_site')}, then take the step.",
    )


RULE = Rule(
    category="precision",
    applies=possible,
    gate=("scaled_attempts", "train_formats"),
    needs=("clips_before_unscale_share", "fixed_scaled_norm"),
    judge=judge,
    sites=("clip_site", "scaler_site", "step_site"),
)
