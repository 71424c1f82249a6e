"""Are arms compared repeat by repeat, with one part varied, or not at all?"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from harness.config import RunSpec
from harness.errors import NotComparable, UsageError
from harness.experiment.compare import Arm, compare, compare_recorded, contrast, vary
from harness.experiment.store import RunStore
from harness.runs import Run
from tests.diagnose.records import run_of
from tests.experiment.arms import arm, timed
from tests.gallery import tiny


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("precision=fp32,bf16", ("precision", ["fp32", "bf16"])),
        ("batch-size= 8, 16 ,32", ("batch_size", ["8", "16", "32"])),
    ],
)
def test_vary_reads_part_and_values(text: str, expected: tuple[str, list[str]]) -> None:
    """The first value is the baseline; dashes and spaces do not matter."""
    assert vary(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("precision", "at least two values"),
        ("precision=fp32", "at least two values"),
        ("precision=fp32,,bf16", "at least two values"),
        ("precision=fp32,bf16,fp32", "each value may be given once"),
        ("speed=1,2", "unknown part 'speed'; known are: workload"),
        ("=1,2", "unknown part ''"),
    ],
)
def test_vary_refuses_what_is_no_comparison(text: str, message: str) -> None:
    """The message says what was given and what is accepted."""
    with pytest.raises(UsageError, match=message) as caught:
        vary(text)
    assert repr(text) in str(caught.value)


def paired(mine: list[Run], theirs: list[Run]) -> Any:
    """Compare two arms of made-up runs."""
    return contrast(arm(*mine), arm(*theirs))


def test_each_repeat_is_compared_with_its_own_partner() -> None:
    """A machine that slows down during the comparison slows down both: the ratio stays."""
    mine, theirs = [timed(throughput=v) for v in (200, 100, 50)], [timed(throughput=v) for v in (100, 50, 25)]
    speed = paired(mine, theirs).speed
    assert (speed.low, speed.middle, speed.high) == (2.0, 2.0, 2.0)


def test_the_spread_is_over_the_repeats() -> None:
    """Lowest, median and highest of the ratios."""
    mine = [timed(throughput=v, memory=m) for v, m in ((100, 5e5), (120, 5e5), (150, 1e6))]
    found = paired(mine, [timed()] * 3)
    assert (found.speed.low, found.speed.middle, found.speed.high) == (1.0, 1.2, 1.5)
    assert (found.memory.low, found.memory.middle, found.memory.high) == (0.5, 0.5, 1.0)


@pytest.mark.parametrize(
    ("goal", "mine", "theirs", "loss"),
    [
        ("max", 0.8, 1.0, 0.2),
        ("min", 0.8, 1.0, -0.2),
        ("min", 1.2, 1.0, 0.2),
        ("max", -1.2, -1.0, 0.2),
        ("max", 0.0, 0.0, 0.0),
        ("max", math.nan, 1.0, math.inf),
        ("min", math.inf, 1.0, math.inf),
    ],
)
def test_the_loss_of_quality_is_positive_when_it_is_worse(goal: str, mine: float, theirs: float, loss: float) -> None:
    """Whatever the goal; a metric that is no number any more is infinitely worse."""
    found = paired([timed(mine, goal=goal)], [timed(theirs, goal=goal)])
    assert found.quality.middle == pytest.approx(loss)


@pytest.mark.parametrize(("mine", "theirs"), [(None, 1.0), (1.0, None), (1.0, math.nan), ("much", 1.0)])
def test_one_repeat_without_a_metric_leaves_the_quality_open(mine: Any, theirs: Any) -> None:
    """A repeat is not dropped: what is left would look better than what was measured."""
    found = paired([timed(), timed(mine)], [timed(), timed(theirs)])
    assert math.isnan(found.quality.middle)
    assert found.speed.middle == 1.0


@pytest.mark.parametrize("throughput", [None, 0.0])
def test_a_baseline_without_a_speed_has_no_ratio(throughput: Any) -> None:
    """Missing or zero gives no number, and no error."""
    assert math.isnan(paired([timed()], [timed(throughput=throughput)]).speed.middle)


def test_arms_of_different_length_are_our_own_mistake() -> None:
    """Pairs are never cut short in silence."""
    with pytest.raises(ValueError, match="zip"):
        paired([timed()], [timed(), timed()])


def test_recorded_runs_that_differ_otherwise_are_refused_with_every_difference() -> None:
    """The error lists all of them, not the first."""
    one = run_of(start={"spec": {"precision": "fp32", "seed": 1}, "data_hash": "aa"})
    other = run_of(start={"spec": {"precision": "bf16", "seed": 2}, "data_hash": "bb"})
    with pytest.raises(NotComparable) as caught:
        compare_recorded(one, other, "precision")
    assert caught.value.differences == ["seed: 1 and 2", "data_hash: aa and bb"]
    assert str(caught.value) == "not comparable: the runs also differ in seed: 1 and 2; data_hash: aa and bb"


def test_recorded_runs_under_other_observers_are_refused() -> None:
    """Observers change no number, but they cost time."""
    one = run_of(start={"spec": {"precision": "fp32", "observe": "off"}})
    other = run_of(start={"spec": {"precision": "bf16", "observe": "full"}})
    with pytest.raises(NotComparable, match="observe: off and full"):
        compare_recorded(one, other, "precision")


@pytest.mark.parametrize("spec", [None, "abc", [1]])
def test_recorded_runs_with_a_broken_spec_are_refused(spec: Any) -> None:
    """What cannot be read is not known to be equal."""
    with pytest.raises(NotComparable):
        compare_recorded(run_of(start={"spec": spec}), run_of(), "precision")


def test_recorded_runs_are_labelled_by_their_part() -> None:
    """The value of the declared part, and the folder."""
    one, other = run_of(), run_of(start={"spec": {"precision": "bf16", "seed": 42}})
    arms = compare_recorded(one, other, "precision")
    assert [a.label for a in arms] == ["fp32 (made-up)", "bf16 (made-up)"]
    assert [len(a.runs) for a in arms] == [1, 1]


class Recording(RunStore):
    """A store that notes the order in which runs are asked for, and makes them up."""

    def __init__(self, answer: Callable[[RunSpec], Run]) -> None:
        self.asked: list[RunSpec] = []
        self.answer = answer

    def get(self, spec: RunSpec, repeat: int = 0) -> Run:
        """Note and answer."""
        self.asked.append(spec)
        return self.answer(spec)


def made_up(spec: RunSpec) -> Run:
    """Return a healthy run of a spec."""
    return run_of(start={"spec": {"precision": spec.precision, "seed": spec.seed}})


def test_repeats_are_interleaved_and_paired_by_seed() -> None:
    """First each arm once with all observers, then the repeats, all arms one after the other with the same seed."""
    store = Recording(made_up)
    arms = compare(tiny(device="cpu", observe="default"), "precision", ["fp32", "bf16"], 2, store)
    assert [(s.observe, s.precision, s.seed) for s in store.asked] == [
        ("full", "fp32", 42),
        ("full", "bf16", 42),
        ("default", "fp32", 42),
        ("default", "bf16", 42),
        ("default", "fp32", 43),
        ("default", "bf16", 43),
    ]
    assert [(a.label, [s.seed for s in a.specs]) for a in arms] == [("fp32", [42, 43]), ("bf16", [42, 43])]


@pytest.mark.parametrize("state", ["died", "error"])
def test_a_comparison_of_which_nothing_works_is_refused(state: str) -> None:
    """The reason of the first run is the reason."""
    with pytest.raises(UsageError, match=f"no run of the comparison worked: rank 0 {state}"):
        compare(tiny(), "precision", ["fp32", "bf16"], 1, Recording(lambda _: run_of(state=state)))


def test_a_refused_arm_refuses_the_comparison_in_its_own_words() -> None:
    """A user's mistake is told as the run told it."""

    def answer(spec: RunSpec) -> Run:
        records = [{"event": "end", "state": "refused", "message": "this CPU has no fp16"}]
        made = made_up(spec)
        return Run(made.folder, [type(made.ranks[0])(0, records)]) if spec.precision == "fp16" else made

    with pytest.raises(UsageError, match=r"this CPU has no fp16"):
        compare(tiny(), "precision", ["fp32", "fp16"], 1, Recording(answer))


def test_a_wrong_value_names_the_part() -> None:
    """Nothing runs before every arm is known to be a run."""
    store = Recording(made_up)
    with pytest.raises(UsageError, match="--vary precision=fp8: precision: got 'fp8'"):
        compare(tiny(), "precision", ["fp32", "fp8"], 1, store)
    assert store.asked == []


def test_arms_that_break_say_so() -> None:
    """The first other state is the arm's."""
    assert arm(timed(), timed(state="oom"), timed()).state == "oom"
    assert arm().state == "completed"


def test_a_real_comparison(store: RunStore) -> None:
    """Two precisions, two repeats: both complete, quality is known, and the arms are healthy."""
    arms: list[Arm] = compare(tiny(observe="default"), "precision", ["fp32", "bf16"], 2, store)
    found = contrast(arms[1], arms[0])
    assert [a.state for a in arms] == ["completed", "completed"]
    assert [a.diagnosis.status for a in arms] == ["healthy", "healthy"]
    assert abs(found.quality.middle) < 0.2
    assert found.speed.low > 0
