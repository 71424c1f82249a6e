"""Does each rule judge on the right side of its bound, and is the status what the evidence allows?"""

from __future__ import annotations

import math
from typing import Any

import pytest

from harness.diagnose.diagnosis import diagnose, merged
from harness.diagnose.finding import Diagnosis, Finding
from harness.diagnose.observations import Observations
from tests.diagnose.records import FP16, fp16_run, observed, run_of, without

BF16: dict[str, Any] = {"train_formats": "bfloat16,float32"}
HALF_WEIGHTS: dict[str, Any] = BF16 | {"half_weight_share": 1.0, "weight_dtypes": "bfloat16"}
COARSE: dict[str, Any] = {"coarser_eval_module": "head", "val_standard_error": 0.0}
LOST: dict[str, Any] = FP16 | {
    "overflow_module": "body.2",
    "overflow_step": 1,
    "overflow_site": "mul at model.py:3",
    "nonfinite_loss_share": 0.5,
}

SIDES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "clip_before_unscale": (
        FP16 | {"clips_before_unscale_share": 0.4},
        FP16 | {"clips_before_unscale_share": 0.5},
    ),
    "double_unscale": (
        FP16 | {"second_unscale_share": 0.89, "grad_norm_median": 0.01},
        FP16 | {"second_unscale_share": 0.9, "grad_norm_median": 0.01},
    ),
    "needless_scaler_with_bf16": (BF16 | {"scaled_attempts": 40}, BF16 | {"scaled_attempts": 50}),
    "scheduler_on_skipped_steps": (
        FP16 | {"schedule_lead": 5, "attempted_steps": 501},
        FP16 | {"schedule_lead": 5, "attempted_steps": 500},
    ),
    "static_scale_overflow": (
        FP16 | {"skipped_steps": 19, "skipped_share_late": 0.19},
        FP16 | {"skipped_steps": 20, "skipped_share_late": 0.2},
    ),
    "low_precision_weights": (
        HALF_WEIGHTS | {"stalled_half_share": 0.29},
        HALF_WEIGHTS | {"stalled_half_share": 0.3},
    ),
    "low_precision_reduction": (BF16 | {"reduction_error": 0.009}, BF16 | {"reduction_error": 0.01}),
    "eval_precision_mismatch": (
        COARSE | {"val_metric": 0.881, "val_metric_fp32": 0.9},
        COARSE | {"val_metric": 0.879, "val_metric_fp32": 0.9},
    ),
    "fp16_activation_overflow": (
        LOST | {"skipped_share_late": 0.04, "nonfinite_loss_share": 0.04},
        LOST | {"skipped_share_late": 0.05, "nonfinite_loss_share": 0.04},
    ),
}
"""Cause -> (the last summary without it, the first one with it)."""


def causes(result: Diagnosis) -> list[str]:
    """Return the causes in their order."""
    return [finding.cause for finding in result.findings]


@pytest.mark.parametrize("cause", SIDES)
def test_each_bound_has_two_sides(cause: str) -> None:
    """Just within the bound nothing is said, just beyond it the cause."""
    reference = run_of({"val_metric": 0.5})
    within, beyond = (diagnose(observed(run_of(summary), reference)) for summary in SIDES[cause])
    assert (causes(within), within.status) == ([], "healthy")
    assert (causes(beyond), beyond.status) == ([cause], "diagnosed")


@pytest.mark.parametrize(
    "summary",
    [
        {},
        BF16,
        FP16,
        FP16 | {"skipped_steps": 1, "skipped_share_late": 0.02},
        FP16 | {"overflow_module": "", "activation_range_used": math.inf},
        HALF_WEIGHTS | {"stalled_half_share": 0.0},
        {"eval_output_bits": 23, "train_output_bits": 7, "val_metric": 0.5, "val_metric_fp32": 0.9} | BF16,
        {"missing_grad_share": 0.5, "zero_grad_share": 1.0},
        {"second_unscale_share": None, **FP16},
        {"second_unscale_share": 1.0, "grad_norm_median": 0.01},
        FP16 | {"second_unscale_share": 1.0, "grad_norm_median": 0.1},
        {"step_norm_ratio": 1 / 65536},
        FP16 | {"step_norm_ratio": 0.4},
        FP16 | {"schedule_lead": 4, "attempted_steps": 100},
        FP16 | {"scaled_attempts": 0, "step_norm_ratio": 1 / 32},
        FP16 | {"scaled_attempts": 0, "step_norm_ratio": 1 / 1000},
        FP16 | {"replaced_scalers": 1},
        FP16 | {"fp16_floor_share": 1.0},
        {"fp16_floor_share": 1.0, "grad_elements": 255},
        {"discarded_share_late": 1.0},
        {"rounded_weight_share": 1.0, "stalled_rounded_share": 1.0, "stalled_rounded_between": 0.1},
        FP16 | {"train_output_bits": None, "train_weight_bits": None, "eval_output_bits": None},
    ],
)
def test_what_is_no_fault(summary: dict[str, Any]) -> None:
    """Skips while the scale is searched for, finer evaluation, unused heads, clipping that cannot be followed."""
    assert causes(diagnose(observed(run_of(summary), run_of({"missing_grad_share": 0.5, "val_metric": 0.5})))) == []


@pytest.mark.parametrize(
    "more",
    [
        {"scale_backoffs": 20, "skipped_share_late": 0.2, "skipped_steps": 20},
        {"nonfinite_loss_share": 0.2, "skipped_share_late": 0.2, "skipped_steps": 20},
    ],
)
def test_a_scale_that_moves_or_a_lost_loss_is_no_static_scale(more: dict[str, Any]) -> None:
    """A scale that backs off is dynamic, and a loss that is lost is lost at any scale."""
    assert "static_scale_overflow" not in causes(diagnose(observed(fp16_run(**more))))


def test_a_mask_does_not_turn_a_static_scale_into_an_overflow() -> None:
    """Skipped steps with finite losses are the scale's, whatever a module gives."""
    result = diagnose(observed(fp16_run(skipped_steps=50, skipped_share_late=0.5, activation_range_used=math.inf)))
    assert causes(result) == ["static_scale_overflow"]


@pytest.mark.parametrize(
    ("lost_weights_step", "found"), [(0, ["fp16_activation_overflow"]), (5, ["fp16_activation_overflow"]), (1, [])]
)
def test_weights_that_were_lost_first_are_no_activations_fault(lost_weights_step: int, found: list[str]) -> None:
    """A loss that comes from NaN weights did not overflow by itself."""
    run = run_of(LOST | {"skipped_share_late": 0.5, "lost_weights_step": lost_weights_step})
    assert [cause for cause in causes(diagnose(observed(run))) if cause != "unknown"] == found


def test_a_reference_that_is_lost_too_clears_the_format() -> None:
    """What diverges in fp32 as well is not the fault of fp16: there is trouble, and nobody knows whose."""
    result = diagnose(observed(run_of(LOST | {"skipped_share_late": 0.5}), run_of(state="diverged")))
    assert (causes(result), result.status) == (["unknown"], "inconclusive")


def test_what_came_in_lost_did_not_overflow() -> None:
    """Where every operation was looked at and none left the range, the data or the weights were not finite before."""
    result = diagnose(observed(run_of(LOST | {"skipped_share_late": 0.5, "overflow_site": ""})))
    assert causes(result) == ["unknown"]
    by_modules_alone = without(run_of(LOST | {"skipped_share_late": 0.5}), "overflow_site")
    assert causes(diagnose(observed(by_modules_alone))) == ["fp16_activation_overflow"]


@pytest.mark.parametrize(
    ("site", "first"),
    [("mul at model.py:3", "fp16_activation_overflow"), ("sum at model.py:3", "low_precision_reduction")],
)
def test_a_sum_that_overflows_is_told_from_an_activation(site: str, first: str) -> None:
    """The operation that left the range first decides."""
    run = run_of(LOST | {"skipped_share_late": 0.5, "overflow_site": site, "reduction_error": math.inf})
    assert causes(diagnose(observed(run)))[0] == first


def test_an_overflow_that_ruins_the_metric_alone() -> None:
    """No step is lost and the loss is finite, but the metric is far behind the reference."""
    ruined = fp16_run(overflow_site="mul at model.py:3", val_metric=0.3)
    assert causes(diagnose(observed(ruined))) == ["fp16_activation_overflow"]
    assert causes(diagnose(observed(fp16_run(overflow_site="mul at model.py:3")))) == []


def test_a_regression_without_a_cause_is_unknown() -> None:
    """The category and the next experiment, never a forced cause."""
    result = diagnose(observed(run_of(BF16 | {"val_metric": 0.7})))
    (finding,) = result.findings
    assert (finding.category, finding.cause, result.status) == ("precision", "unknown", "diagnosed")
    assert finding.evidence[0].name == "val_regression"


def test_a_loss_that_is_lost_alone_is_unknown_too() -> None:
    """fp32 has finite losses, this run has not, and no rule says why."""
    result = diagnose(observed(run_of(HALF_WEIGHTS | {"nonfinite_loss_share": 0.9, "val_metric": None})))
    assert causes(result) == ["unknown"]
    lost_too = run_of({"nonfinite_loss_share": 0.9})
    both = diagnose(observed(run_of(BF16 | {"nonfinite_loss_share": 0.9}), lost_too))
    assert (causes(both), both.status) == (["unknown"], "inconclusive")


def test_zeros_without_harm_are_no_finding() -> None:
    """A model that has learned its data has no gradients left, in fp16 earlier than in fp32."""
    zeros = [{"event": "sample", "step": 1, "zero_grad_share": 0.9}]
    few = [{"event": "sample", "step": 1, "zero_grad_share": 0.1}]
    result = diagnose(observed(run_of(FP16, events=zeros), run_of(events=few)))
    assert (causes(result), result.status) == ([], "healthy")


@pytest.mark.parametrize("metric", [0.02, -0.02])
def test_a_gap_within_the_noise_of_a_metric_near_zero_is_no_mismatch(metric: float) -> None:
    """Relative to almost nothing anything is large; it must also exceed one standard error."""
    near_zero = {
        "coarser_eval_module": "head",
        "val_metric": metric,
        "val_metric_fp32": 0.001,
        "val_standard_error": 0.1,
    }
    assert causes(diagnose(observed(run_of(near_zero), run_of(near_zero)))) == []


def test_a_sum_in_16_bits_explains_the_gap_of_evaluation() -> None:
    """Both see a wrong metric; the one that knows why speaks."""
    both = COARSE | {"val_metric": 0.5, "val_metric_fp32": 0.9, "reduction_error": 0.4}
    assert causes(diagnose(observed(run_of(both)))) == ["low_precision_reduction"]


def test_a_single_coarse_module_is_asked_about_only_where_the_gap_is_known() -> None:
    """Torch's own encoder takes a coarser path in evaluation: without the gap that alone leaves a run healthy."""
    coarse = run_of(COARSE | {"train_op_bits": 23, "eval_op_bits": 7})
    assert diagnose(observed(without(coarse, "val_metric_fp32"))).status == "healthy"
    by_outputs = without(run_of({"eval_output_bits": 7}), "val_metric_fp32")
    assert diagnose(observed(by_outputs)).status == "not_enough_evidence"


@pytest.mark.parametrize("num_val", [10, 50])
def test_single_samples_are_no_gap(num_val: int) -> None:
    """With few samples two of them may flip."""
    flipped = COARSE | {"val_metric": 0.9 - 2 / num_val * 0.9, "val_metric_fp32": 0.9}
    start = {"num_val": num_val}
    assert causes(diagnose(observed(run_of(flipped, start), run_of({"val_metric": 0.5}, start)))) == []


def test_runs_that_differ_otherwise_say_nothing_else() -> None:
    """Integrity comes first: no cause is read from runs that are not comparable."""
    run = run_of(SIDES["clip_before_unscale"][1], {"spec": {"precision": "fp16", "seed": 43}})
    result = diagnose(observed(run))
    assert (causes(result), result.status, result.checked) == (
        ["uncontrolled_comparison"],
        "inconclusive",
        ["uncontrolled_comparison"],
    )
    assert any(entry.value == "seed: 43 and 42" for entry in result.findings[0].evidence)


@pytest.mark.parametrize("state", ["died", "error", "oom", "timeout", "refused", "interrupted", "diverged"])
def test_a_run_that_did_not_complete_is_never_healthy(state: str) -> None:
    """Without a finding the evidence is not enough."""
    assert diagnose(observed(run_of(state=state))).status == "not_enough_evidence"


@pytest.mark.parametrize(("summary", "missing"), [(BF16, ["low_precision_reduction"]), ({}, [])])
def test_what_costs_too_much_may_be_missing(summary: dict[str, Any], missing: list[str]) -> None:
    """Not all reductions are watched by default: a run can be healthy without; in fp32 nobody asks for them."""
    result = diagnose(observed(without(run_of(summary), "reduction_error")))
    assert (result.status, [entry.needed_for for entry in result.missing]) == ("healthy", missing)


def test_an_observer_that_stepped_aside_leaves_its_questions_open() -> None:
    """Without any word about the scaler no rule about it says that all is well."""
    result = diagnose(observed(without(fp16_run(), "scaled_attempts")))
    assert result.status == "not_enough_evidence"
    assert {entry.observation for entry in result.missing} == {"scaled_attempts"}


def test_without_observers_nothing_is_known() -> None:
    """--observe off leaves a loss and a metric, and that is no evidence of health."""
    bare = run_of()
    bare = without(bare, *set(bare.summary) - {"val_metric", "val_standard_error"})
    assert diagnose(observed(bare)).status == "not_enough_evidence"


def test_a_run_alone_can_be_healthy_in_fp32() -> None:
    """Nothing that needs a reference is possible there."""
    assert diagnose(Observations(run_of())).status == "healthy"


@pytest.mark.parametrize(("once", "confidences"), [(False, [0.9, 0.6]), (True, [0.9])])
def test_ranks_that_share_a_fault_tell_it_once(once: bool, confidences: list[float]) -> None:
    """Several files keep a finding each, with its own line; the ranks of one training keep the surest."""
    words = {"category": "precision", "cause": "c", "evidence": [], "confirm": "", "action": ""}
    found = [
        Diagnosis(status=status, findings=[Finding(confidence=confidence, **words)], checked=checked)  # type: ignore[arg-type]
        for confidence, status, checked in ((0.6, "inconclusive", ["a", "b"]), (0.9, "diagnosed", ["b"]))
    ]
    result = merged(found, each_cause_once=once)
    assert [finding.confidence for finding in result.findings] == confidences
    assert (result.status, result.checked) == ("diagnosed", ["b"])
