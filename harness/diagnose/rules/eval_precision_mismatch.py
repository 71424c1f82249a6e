"""Training is fine, but the model is evaluated in a coarser format than it was trained in."""

from __future__ import annotations

import math
from collections.abc import Iterator

from harness.diagnose.base import Match, Rule
from harness.diagnose.finding import Evidence
from harness.diagnose.observations import SUMS, Observations

KINDS = ("output", "weight", "op")

BITS = ("train_output_bits", "train_weight_bits", "eval_output_bits", "eval_weight_bits", "coarser_eval_module")


CONFIRM = "Evaluate the same checkpoint once in the training's own precision."

ACTION = "Evaluate the weights that were trained, under the same autocast as in training or in fp32."

OUTPUT_GAP = 0.1
"""Gap of the outputs from which they are others: a hundredth of their variance is lost. Measured as the median over a
run: at most 0.016 for evaluations of the built-in workloads in bf16, 0.003 in fp16, and 0.026 on fp8 weights that give
the same metric; 0.31 and more where an evaluation in bf16 or on fp8 weights is worse than the training."""

CLEAR_GAP = 0.3
"""Gap of the outputs from which there is no doubt: the least that was measured of faulty evaluations."""


def possible(observations: Observations) -> bool:
    """Outputs or weights have fewer mantissa bits in evaluation than in training.

    That a single module or operation has, as in torch's own fast paths, or that weights were rounded and are in fp32
    again, is asked for only where the gap is known.
    """
    closely = observations.has("eval_gap")
    if closely and (observations.text("coarser_eval_module") or observations.has("eval_output_gap")):
        return True
    kinds = KINDS if closely else KINDS[:2]
    return any(_is_coarser(observations, kind) for kind in kinds)


def judge(observations: Observations) -> Match | None:
    """Compare the reported metric, or the outputs, with an fp32 evaluation of the trained weights."""
    if observations.has("eval_output_gap"):
        return _by_outputs(observations) if observations.at_least("eval_output_gap", OUTPUT_GAP) else None
    if not observations.is_evaluated_otherwise or observations.at_least("reduction_error", SUMS):
        # Where the metric is added up wrongly, that is the cause.
        return None
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
            *_told_formats(observations),
        ],
        confirm=CONFIRM,
        action=ACTION,
    )


def _by_outputs(observations: Observations) -> Match:
    """Tell of a run whose metric nobody knows, but whose outputs were compared batch by batch."""
    gap = observations.number("eval_output_gap") or 0.0
    differ = f"are off by {gap:.0%} of their spread over the samples" if gap < math.inf else "are not finite numbers"
    return Match(
        confidence=0.9 if gap >= CLEAR_GAP else 0.7,
        summary=(
            "Evaluation runs in a coarser format than training, or on weights that were rounded, and its outputs "
            f"{differ}, against the trained weights in fp32 on the same batches."
        ),
        evidence=[observations.evidence("eval_output_gap", f">= {OUTPUT_GAP}"), *_told_formats(observations)],
        confirm=CONFIRM,
        action=ACTION,
    )


def _told_formats(observations: Observations) -> Iterator[Evidence]:
    if observations.text("coarser_eval_module"):
        yield observations.evidence("coarser_eval_module", "is named")
    for kind in KINDS:
        yield from _told_bits(observations, kind)


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
