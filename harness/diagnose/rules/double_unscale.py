"""Gradients that are divided by the loss scale a second time after unscale_."""

from __future__ import annotations

from harness.diagnose.base import Match, Rule, under_a_scaler
from harness.diagnose.observations import Observations

BOUND = 0.9
"""Share of the sampled steps. A division by the scale is in each of them, and follows the scale when it moves; another
factor is near it by chance, in some."""

EARLY = 0.5
"""See harness.diagnose.rules.clip_before_unscale."""

SMALL = 0.1
"""Gradient norm below which one factor of the scale is too many: usual norms are 0.01 to 10 and scales 1024 and more. A
mean over as many tokens as the scale is large divides the same way, and leaves a usual norm."""

SHARED = 0.001
"""Share of weights that are unscaled twice: an exact count, with room for a single number."""


def possible(observations: Observations) -> bool:
    """A live scale, and a norm to compare with, without a clip of scaled gradients, which shrinks the norm too."""
    if observations.at_least("shared_unscale_share", SHARED):
        return under_a_scaler(observations)
    early = observations.at_least("clips_before_unscale_share", EARLY)
    early = early or (observations.number("fixed_scaled_norm") or 0.0) > 0.0
    unknown = observations.is_told("second_unscale_share") and not observations.has("second_unscale_share")
    return under_a_scaler(observations) and not unknown and not early


def judge(observations: Observations) -> Match | None:
    """Compare the norm at the step with what unscaling and clipping must have left, divided by the scale once more."""
    if observations.at_least("shared_unscale_share", SHARED):
        return _by_two(observations)
    norm = observations.number("grad_norm_median")
    if not observations.at_least("second_unscale_share", BOUND) or norm is None or norm >= SMALL:
        return None
    scale = observations.number("final_loss_scale") or 1.0
    return Match(
        confidence=0.95,
        summary=(
            f"The optimizer gets gradients whose norm is {observations.number('step_norm_ratio') or 0:.2g} of what "
            f"unscaling and clipping leave, with a loss scale of {scale:g} at the end: in each step that was looked at "
            "they are divided by the scale of that step a second time."
        ),
        evidence=[
            observations.evidence("second_unscale_share", f">= {BOUND}"),
            observations.evidence("grad_norm_median", f"< {SMALL}"),
            observations.context("step_norm_ratio"),
            observations.context("final_loss_scale"),
        ],
        confirm="Run once in bf16, where the scale is 1: the norm at the step must be what clipping leaves.",
        action="Unscale once: drop the division by hand, or the unscale_ when a fused optimizer divides by itself.",
    )


def _by_two(observations: Observations) -> Match:
    share = observations.number("shared_unscale_share") or 0.0
    return Match(
        confidence=0.9,
        summary=(
            f"Two optimizers that unscale in the same step both hold {share:.0%} of the weights: the gradients of "
            "these are divided by the loss scale twice."
        ),
        evidence=[
            observations.evidence("shared_unscale_share", f">= {SHARED}"),
            observations.context("final_loss_scale"),
        ],
        confirm="Print the gradient norm of one shared weight before and after the second unscale_.",
        action="Leave each weight to one optimizer, or use one optimizer with parameter groups.",
    )


RULE = Rule(
    category="precision",
    applies=possible,
    gate=("scaled_attempts", "clips_before_unscale_share"),
    needs=("second_unscale_share",),
    judge=judge,
    partial=True,
    sites=("unscale_site", "scaler_site"),
)
