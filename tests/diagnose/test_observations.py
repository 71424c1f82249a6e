"""Are observations derived as they say, and missing rather than guessed?"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from harness.diagnose.observations import REGRESSION, Observations
from harness.runs import Run
from tests.diagnose.records import FP16, fp16_run, observed, run_of, without


def sampled(name: str, *points: tuple[int, float]) -> list[dict[str, Any]]:
    """Return sample records of one number."""
    return [{"event": "sample", "step": step, name: value} for step, value in points]


def test_zeros_are_judged_as_the_excess_over_the_same_steps() -> None:
    """The median difference at steps that both runs sampled; dead units are in both."""
    mine = run_of(events=sampled("zero_grad_share", (1, 0.5), (5, 0.75), (10, 0.5), (99, 1.0)))
    theirs = run_of(events=sampled("zero_grad_share", (1, 0.25), (5, 0.25), (10, 0.25)))
    assert observed(mine, theirs).number("zero_grad_excess") == 0.25


def test_zeros_after_the_first_skip_are_left_out() -> None:
    """From there on the two runs have taken different updates."""
    skip = [{"event": "sample", "step": 5, "skipped": 1}]
    mine = run_of(events=sampled("zero_grad_share", (1, 0.25), (5, 1.0), (10, 1.0)) + skip)
    theirs = run_of(events=sampled("zero_grad_share", (1, 0.25), (5, 0.0), (10, 0.0)))
    assert observed(mine, theirs).number("zero_grad_excess") == 0.0


@pytest.mark.parametrize(
    ("mine", "never", "at_times", "expected"),
    [(0.5, 0.0, 0.0, 0.5), (0.5, 0.5, 0.0, 0.0), (0.5, 0.1, 0.3, 0.1), (0.1, 0.0, 0.9, -0.8), (0.5, 0.0, None, None)],
)
def test_missing_gradients_count_where_the_reference_always_has_one(
    mine: float, never: float, at_times: float | None, expected: float | None
) -> None:
    """What has none there either, or only at times, is no excess."""
    theirs = run_of({"missing_grad_share": never, "partial_grad_share": at_times})
    found = observed(run_of({"missing_grad_share": mine}), theirs).number("missing_grad_excess")
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("goal", "mine", "theirs", "expected"),
    [
        ("max", 0.8, 1.0, 0.2),
        ("max", 1.0, 0.8, -0.25),
        ("min", 1.2, 1.0, 0.2),
        ("min", 0.5, 1.0, -0.5),
        ("max", -1.2, -1.0, 0.2),
        ("max", math.nan, 1.0, math.inf),
        ("min", math.inf, 1.0, math.inf),
        ("max", 1.0, math.nan, None),
        ("max", None, 1.0, None),
    ],
)
def test_regression_is_positive_when_the_metric_is_worse(
    goal: str, mine: float | None, theirs: float, expected: float | None
) -> None:
    """Whatever the goal and the sign of the metric; what is no number is infinitely worse, or unknown."""
    found = observed(run_of({"val_metric": mine}, {"goal": goal}), run_of({"val_metric": theirs}))
    assert found.number("val_regression") == (None if expected is None else pytest.approx(expected))


def test_the_bound_of_a_regression_grows_with_the_noise() -> None:
    """Three standard errors of the difference of two means, relative to the metric, beyond two per cent."""
    found = observed(run_of({"val_standard_error": 0.01}), run_of({"val_metric": 0.5}))
    assert found.regression_bound == pytest.approx(REGRESSION + 3 * math.sqrt(2) * 0.02)


@pytest.mark.parametrize("error", [None, math.nan])
def test_an_unknown_noise_is_taken_from_the_number_of_samples(error: float | None) -> None:
    """An F1 score of 100 samples may scatter by a tenth of itself."""
    found = observed(run_of({"val_standard_error": error}, {"num_val": 100}))
    assert found.regression_bound == pytest.approx(REGRESSION + 3 * math.sqrt(2) * 0.1)


@pytest.mark.parametrize(("steps", "regressed"), [(100, True), (95, True), (85, False)])
def test_fewer_updates_explain_a_regression(steps: int, regressed: bool) -> None:
    """A run that skipped a tenth of its updates is worse for that reason."""
    assert observed(run_of({"val_metric": 0.5, "optimizer_steps": steps})).is_regressed is regressed


def test_the_gap_of_evaluation_has_no_sign() -> None:
    """Better than in fp32 is as wrong as worse."""
    for metric in (0.8, 1.2):
        found = observed(run_of({"val_metric": metric, "val_metric_fp32": 1.0}))
        assert found.number("eval_gap") == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("resumes", "spec", "expected"),
    [
        ([], {}, 0.0),
        ([(1024.0, 1024.0)], {"restart_at": 5}, 0.0),
        ([(1024.0, 65536.0)], {"restart_at": 5}, 6.0),
        ([(8.0, 8.0), (8.0, 2.0)], {"resume": "step5.pt"}, 2.0),
        ([], {"restart_at": 5}, None),
        ([(0.0, 8.0)], {"restart_at": 5}, None),
        ([("much", 8.0)], {"restart_at": 5}, None),
    ],
)
def test_a_jump_of_the_scale_is_counted_in_octaves(
    resumes: list[tuple[Any, float]], spec: dict[str, Any], expected: float | None
) -> None:
    """The largest of all resumes; a planned resume that left no record is missing, not calm."""
    events = [{"event": "resume", "saved_scale": saved, "live_scale": live} for saved, live in resumes]
    assert observed(run_of(FP16, {"spec": spec}, events)).number("scale_shift_at_resume") == expected


@pytest.mark.parametrize(
    ("formats", "scaled", "expected"),
    [("bfloat16,float32", 100, 1.0), ("float16,float32", 100, 0.0), ("bfloat16", 0, 0.0), ("", 0, 0.0), ("", 9, None)],
)
def test_a_scaler_is_needless_without_fp16(formats: str, scaled: int, expected: float | None) -> None:
    """Only where the formats are known."""
    found = observed(run_of({"train_formats": formats, "scaled_attempts": scaled}))
    assert found.number("needless_scaled_share") == expected


def test_shares_per_attempt_need_attempts() -> None:
    """Without any attempt there is no share."""
    assert observed(run_of({"attempted_steps": 0})).number("schedule_lead_share") is None
    assert observed(run_of({"schedule_lead": 25})).number("schedule_lead_share") == 0.25


def test_a_twin_is_needed_for_what_is_compared() -> None:
    """Without a reference nothing is derived from one."""
    alone = Observations(run_of())
    for name in ("zero_grad_excess", "missing_grad_excess", "val_regression", "undeclared_differences"):
        assert not alone.has(name)


def test_told_is_more_than_seen() -> None:
    """A run that says None has looked; one that says nothing has not, and garbage is nothing."""
    run = run_of({"half_weight_share": None, "scaled_attempts": "many", "train_formats": 7})
    found = observed(without(run, "missing_grad_share"))
    told = [found.is_told(n) for n in ("half_weight_share", "scaled_attempts", "train_formats", "missing_grad_share")]
    assert told == [True, False, False, False]
    assert not found.has("half_weight_share")


def test_evidence_names_value_unit_and_source() -> None:
    """What was not observed says so; what was compared names its reference."""
    found = observed(fp16_run(skipped_share_late=0.5))
    late, seen = found.evidence("skipped_share_late", ">= 0.2"), found.evidence("train_formats", "contains float16")
    assert (late.value, late.unit, late.source) == (0.5, "share", "made-up/rank0.jsonl")
    assert (seen.value, seen.unit) == ("float16,float32", "")
    assert found.evidence("zero_grad_excess", "").value == "not observed"
    assert found.evidence("val_regression", "").source.endswith("against its reference")


@pytest.mark.parametrize(
    ("name", "flag"), [("reduction_error", "--observe full"), ("zero_grad_excess", "--precision fp32")]
)
def test_the_command_for_a_missing_number_gives_it(name: str, flag: str) -> None:
    """The run's own spec with one change."""
    command = observed(fp16_run()).command_for(name)
    assert command.startswith("python train.py ")
    assert flag in command


@pytest.mark.parametrize("spec", [None, "abc", [], {"batch_size": -3}, {"no_such_part": 1}])
def test_a_broken_start_record_has_no_command_or_a_plain_one(spec: Any) -> None:
    """It never raises."""
    assert Observations(run_of(start={"spec": spec})).command_for("reduction_error")


def test_no_rank_is_no_observation() -> None:
    """A folder whose ranks left nothing has nothing to say."""
    assert not Observations(Run(Path("empty"), [])).has("attempted_steps")
