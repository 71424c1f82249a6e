"""An activation beyond 65504, the largest fp16 number, and steps or quality lost because of it."""

from __future__ import annotations

from harness.diagnose.base import Match, Rule, in_fp16
from harness.diagnose.observations import LOST, Observations

LOSSES = ("nonfinite_loss_share", "skipped_share_late")
"""What an overflow in the forward pass costs."""

SITES = ("overflow_module", "overflow_site")
"""Where the first number that is not finite came from."""

SUMS = ("sum", "mean", "cumsum", "linalg_vector_norm", "norm")
"""Operations that add up: when they overflow the values were in range, and low_precision_reduction tells it."""


SILENT = ("infinite_module", "overflow_site")
"""Where a number that is not finite came from, without any harm to the loss."""

DEAD = 0.5
"""Share of gradients that are exactly 0: what is divided by an infinite number is 0, and so is what comes before it. Of
healthy networks with ReLU up to half are."""


def judge(observations: Observations) -> Match | None:
    """The forward pass gives no number in fp16, and updates are lost; or an overflow ruins the metric alone."""
    if _silent(observations):
        return _divided_away(observations)
    if not (_lost_steps(observations) or _ruined_metric(observations)) or _explained_otherwise(observations):
        return None
    site = observations.text("overflow_site")
    place = observations.text("overflow_module") or site
    step = observations.number("overflow_step") or 0.0
    since = f" from step {step:.0f} on" if step else ""
    return Match(
        confidence=0.9 if site or observations.reference else 0.6,
        summary=(
            f"What {place} gives is not finite in fp16{since}"
            + (f" (first operation: {site})" if site and site != place else "")
            + "; the largest fp16 number is 65504. The loss scale cannot help, the forward pass itself overflows."
        ),
        evidence=[
            *(observations.evidence(name, "is named") for name in SITES if observations.text(name)),
            observations.context("activation_range_used"),
            *(observations.evidence(name, f">= {LOST}") for name in LOSSES if observations.at_least(name, LOST)),
        ],
        confirm="Run once in bf16, which has the range of fp32: the loss must be finite.",
        action=(
            f"Compute {place} in fp32 (an autocast(enabled=False) island), or train in bf16. Clamping only hides it."
        ),
    )


def _silent(observations: Observations) -> bool:
    """An output is infinite in most passes, no loss is, and most gradients are 0."""
    is_finite = observations.number("nonfinite_loss_share") == 0
    return is_finite and bool(_infinite(observations)) and observations.at_least("zero_grad_share", DEAD)


def _infinite(observations: Observations) -> str:
    """Return what is infinite although the losses are not: a module, or an operation where all were looked at."""
    return observations.text("infinite_module") or observations.text("overflow_site")


def _divided_away(observations: Observations) -> Match:
    module, zeros = _infinite(observations), observations.number("zero_grad_share") or 0.0
    return Match(
        confidence=0.7,
        summary=(
            f"What {module} gives is infinite in most steps, and the losses are finite all the same: what is divided "
            f"by it becomes 0, and {zeros:.0%} of the gradients are exactly 0. The largest fp16 number is 65504."
        ),
        evidence=[
            *(observations.evidence(name, "is named") for name in SILENT if observations.text(name)),
            observations.evidence("zero_grad_share", f">= {DEAD}"),
            observations.context("activation_range_used"),
        ],
        confirm="Run once in bf16, which has the range of fp32: the gradients must not be 0.",
        action=f"Compute {module} in fp32: norms and squares above all (x.float() before x * x).",
    )


def _lost_steps(observations: Observations) -> bool:
    """Losses are not finite, and steps are lost: a mask of -inf or a scale that is searched for loses no loss."""
    lost = observations.at_least("skipped_share_late", LOST) or not observations.loss_is_finite
    lost = lost or observations.at_least("nonfinite_loss_share", LOST)
    bad = (observations.number("nonfinite_loss_share") or 0.0) > 0
    return bad and lost and bool(observations.text("overflow_module"))


def _ruined_metric(observations: Observations) -> bool:
    """An operation left the range, no step was lost, and the metric is worse than in fp32."""
    return bool(observations.text("overflow_site")) and observations.is_regressed


def _explained_otherwise(observations: Observations) -> bool:
    """The fp32 reference is lost too, the weights or the data were lost first, or what overflowed is a sum."""
    if observations.is_told("overflow_site") and not observations.text("overflow_site"):
        # Every fp16 operation was looked at, and none left the range: what is not finite came in so.
        return True
    operation = observations.text("overflow_site").partition(" at ")[0]
    if operation in SUMS and observations.at_least("reduction_error", 1.0):
        return True
    lost_weights, overflow = observations.number("lost_weights_step"), observations.number("overflow_step")
    weights_first = lost_weights is not None and overflow is not None and 0 < lost_weights <= overflow
    return weights_first or observations.is_reference_lost


RULE = Rule(
    category="precision",
    applies=in_fp16,
    gate=("train_formats",),
    needs=("nonfinite_loss_share",),
    judge=judge,
    sites=("overflow_site",),
)
