"""Training is fine, but the model is evaluated in a coarser format than it was trained in."""

from __future__ import annotations

import math
from collections.abc import Iterator

from harness.diagnose.base import Match, Rule
from harness.diagnose.finding import Evidence
from harness.diagnose.observations import Observations

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
    if not observations.is_evaluated_otherwise or observations.at_least("reduction_error", SUMS):
        # Where the metric is added up wrongly, that is the cause.
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
            observations.evidence("eval_gap", f">= {observations.eval_gap_bound:.3g}"),
            *([observations.evidence("coarser_eval_module", "is named")] if named else []),
            *(entry for kind in KINDS for entry in _told_bits(observations, kind)),
        ],
        confirm="Evaluate the same checkpoint once in the training's own precision.",
        action="Evaluate the weights that were trained, under the same autocast as in training or in fp32.",
    )


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
