"""Training is fine, but the model is evaluated in a coarser format than it was trained in."""

from __future__ import annotations

import math
from collections.abc import Iterator

from harness.diagnose.base import Match, Rule
from harness.diagnose.finding import Evidence
from harness.diagnose.observations import Observations
from harness.observe.recorder import number

BOUND = 0.02
"""Relative gap. Healthy bf16 and fp16 runs of the built-in workloads: at most 0.0002."""

SAMPLES = 2.0
"""Samples whose flip never counts: on 50 validation samples one of them is already 0.02."""


KINDS = ("output", "weight", "op")

BITS = ("train_output_bits", "train_weight_bits", "eval_output_bits", "eval_weight_bits", "coarser_eval_module")


SUMS = 0.01
"""See harness.diagnose.rules.low_precision_reduction."""


def possible(observations: Observations) -> bool:
    """Outputs or weights have fewer mantissa bits in evaluation than in training.

    That a single module or operation has, as in torch's own fast paths, is asked for only where the gap is known.
    """
    closely = observations.has("eval_gap")
    if closely and observations.text("coarser_eval_module"):
        return True
    kinds = KINDS if closely else KINDS[:2]
    return any(_is_coarser(observations, kind) for kind in kinds)


def judge(observations: Observations) -> Match | None:
    """Compare the reported metric with an fp32 evaluation of the trained weights."""
    bound = BOUND + SAMPLES / max(1.0, number(observations.run.start.get("num_val")) or 1.0)
    if not observations.at_least("eval_gap", bound) or _explained_otherwise(observations):
        return None
    named = bool(observations.text("coarser_eval_module"))
    gap = observations.number("eval_gap") or 0.0
    differs = f"differs by {gap:.1%} from" if gap < math.inf else "is not a finite number, unlike"
    return Match(
        confidence=0.9,
        summary=(
            f"The reported metric {observations.run.value('val_metric') or 0:.4g} {differs} an fp32 evaluation of the "
            f"same trained weights ({observations.run.value('val_metric_fp32') or 0:.4g}), and evaluation runs in a "
            "coarser format than training."
        ),
        evidence=[
            observations.evidence("eval_gap", f">= {bound:.3g}"),
            *([observations.evidence("coarser_eval_module", "is named")] if named else []),
            *(entry for kind in KINDS for entry in _told_bits(observations, kind)),
        ],
        confirm="Evaluate the same checkpoint once in the training's own precision.",
        action="Evaluate the weights that were trained, under the same autocast as in training or in fp32.",
    )


def _explained_otherwise(observations: Observations) -> bool:
    """Tell whether the metric is added up wrongly, or the difference is below one standard error of it.

    Relative to a metric near zero any difference is large.
    """
    if observations.at_least("reduction_error", SUMS):
        return True
    mine, fp32 = observations.run.value("val_metric") or 0.0, observations.run.value("val_metric_fp32") or 0.0
    error = observations.run.value("val_standard_error") or 0.0
    return abs(mine - fp32) < error


def _is_coarser(observations: Observations, kind: str) -> bool:
    return _bits(observations, "eval", kind) < _bits(observations, "train", kind)


def _told_bits(observations: Observations, kind: str) -> Iterator[Evidence]:
    """Yield what is known of one kind; only bits that are fewer in evaluation speak for this cause."""
    train, evaluation = f"train_{kind}_bits", f"eval_{kind}_bits"
    if observations.has(train):
        yield observations.context(train)
    if _is_coarser(observations, kind):
        yield observations.evidence(evaluation, f"< {_bits(observations, 'train', kind):g}")
    elif observations.has(evaluation):
        yield observations.context(evaluation)


def _bits(observations: Observations, phase: str, kind: str) -> float:
    value = observations.number(f"{phase}_{kind}_bits")
    return float("inf") if value is None and phase == "eval" else value or 0.0


RULE = Rule(category="precision", applies=possible, gate=BITS, needs=("eval_gap",), judge=judge)
