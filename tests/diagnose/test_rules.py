"""Does each rule keep its contract? A new file in harness/diagnose/rules is tested here the moment it exists."""

from __future__ import annotations

from collections.abc import Callable
from operator import eq, ge, gt, le, lt
from typing import Any, get_args

import pytest

from harness.diagnose.base import RULES, Rule
from harness.diagnose.diagnosis import INTEGRITY, diagnose
from harness.diagnose.finding import NO_BOUND, Category, Finding
from harness.diagnose.observations import Observations
from harness.diagnose.vocabulary import NUMBERS, TEXTS
from harness.experiment.store import RunStore
from harness.faults.base import FAULTS
from harness.observe.running_sums import RunningSums
from tests.diagnose.records import edited, run_of, without
from tests.gallery import incident, keys, places

READ_FROM: dict[str, tuple[str, ...]] = {
    "zero_grad_excess": ("zero_grad_share",),
    "missing_grad_excess": ("missing_grad_share",),
    "eval_gap": ("val_metric_fp32",),
    "scale_shift_at_resume": ("saved_scale", "live_scale"),
    "needless_scaled_share": ("train_formats",),
    "schedule_lead_share": ("schedule_lead",),
    "undeclared_differences": ("event",),
}
"""Derived observation -> the names in the records that it is made of; without any ``event`` no record is usable."""

COMPARED: dict[str, Callable[[float, float], bool]] = {">=": ge, ">": gt, "<=": le, "<": lt, "=": eq}

GARBAGE: tuple[Any, ...] = ("many", "", None, True, [], [1.0], {}, {"a": 1}, "nan", "inf", "-inf", -1, 10**400, 1e308)


def shown_by(cause: str) -> str:
    """Return the first workload on which a cause is shown."""
    return next(iter(keys()[cause].workloads))


@pytest.mark.parametrize("name", RULES.names())
class TestRule:
    """The contract of every rule."""

    def test_it_is_complete(self, name: str) -> None:
        """A category, what it needs, and a fault and an answer key of the same name."""
        rule = RULES.load(name)
        assert isinstance(rule, Rule)
        assert rule.category in get_args(Category)
        assert rule.needs
        assert name in FAULTS.names()
        assert name in keys()

    def test_its_finding_is_whole(self, name: str, store: RunStore) -> None:
        """Cause and category are the rule's own; every sentence is there, and every number has a unit and a source."""
        shown = incident(name, shown_by(name), store)
        (finding,) = shown.diagnose(shown.suspect).findings
        assert (finding.cause, finding.category) == (name, RULES.load(name).category)
        assert 0 < finding.confidence <= 1
        for text in (finding.summary, finding.confirm, finding.action):
            assert text.rstrip().endswith(".")
            assert "None" not in text
        for entry in finding.evidence:
            assert entry.threshold
            assert entry.source
            assert entry.value != "not observed"

    def test_its_evidence_meets_what_it_says(self, name: str, store: RunStore) -> None:
        """Each condition holds for the value beside it; what decided nothing says so, and something did decide."""
        shown = incident(name, shown_by(name), store)
        (finding,) = shown.diagnose(shown.suspect).findings
        assert all(meets(entry.value, entry.threshold) for entry in finding.evidence)
        assert finding.evidence[0].threshold != NO_BOUND

    def test_it_says_what_is_missing(self, name: str, store: RunStore) -> None:
        """Without an observation that it needs there is neither a guess nor an error, but a command that gives it."""
        shown, rule = incident(name, shown_by(name), store), RULES.load(name)
        for need in (*rule.needs, *rule.gate):
            less = without(shown.suspect, *READ_FROM.get(need, (need,)))
            result = diagnose(Observations(less, shown.reference))
            if rule.partial and name in [finding.cause for finding in result.findings]:
                continue
            assert name not in [finding.cause for finding in result.findings], need
            missing = [entry for entry in result.missing if entry.needed_for == name]
            assert missing, need
            assert all(entry.command.startswith(("python train.py", "the run has no usable")) for entry in missing)
            assert result.status in {"not_enough_evidence", "diagnosed"} or rule.optional, need

    def test_garbage_is_neither_an_error_nor_a_finding_from_nothing(self, name: str, store: RunStore) -> None:
        """Each number of the records is replaced by what is no number, one kind of garbage at a time."""
        shown = incident(name, shown_by(name), store)
        for garbage in GARBAGE:
            result = diagnose(Observations(spoiled(shown.suspect, garbage), shown.reference))
            assert result.status in {"healthy", "diagnosed", "inconclusive", "not_enough_evidence"}
            diagnose(Observations(shown.suspect, spoiled(shown.reference, garbage)))

    def test_one_spoilt_observation_at_a_time(self, name: str, store: RunStore) -> None:
        """Whichever single entry of the summary is garbage, nothing raises."""
        shown = incident(name, shown_by(name), store)
        for entry in shown.suspect.summary:
            for garbage in GARBAGE:
                diagnose(Observations(spoiled(shown.suspect, garbage, entry), shown.reference))

    def test_it_is_silent_without_any_record(self, name: str) -> None:
        """An empty run is no evidence of anything."""
        empty = edited(run_of(), lambda record: {})
        assert name not in [finding.cause for finding in diagnose(Observations(empty, run_of())).findings]


def meets(value: Any, condition: str) -> bool:
    """Tell whether a value meets a condition; a condition of another form is an error."""
    if condition in {NO_BOUND, "is named", "none allowed"}:
        return bool(value) or condition == NO_BOUND
    match condition.split():
        case [">=" | ">" | "<=" | "<" | "=" as sign, bound]:
            return COMPARED[sign](value, float(bound))
        case ["within", "a", "factor", "of", factor, "of", middle]:
            return bool(1 / float(factor) < value / float(middle) < float(factor))
        case ["contains" | "no" as word, part]:
            return (part in value.split(",")) is (word == "contains")
    raise ValueError(condition)


def spoiled(run: Any, garbage: Any, only: str | None = None) -> Any:
    """Return a run in whose records every number, or one entry of the summary, is garbage."""

    def spoil(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: spoil(item) for name, item in value.items()}
        return value if isinstance(value, str) else garbage

    def change(record: dict[str, Any]) -> dict[str, Any]:
        if only is None:
            return {name: spoil(value) for name, value in record.items()}
        summary = record.get("summary")
        return record | ({"summary": summary | {only: garbage}} if isinstance(summary, dict) else {})

    return edited(run, change)


@pytest.mark.parametrize(("cause", "workload"), places())
def test_the_confusion_matrix_is_diagonal(cause: str, workload: str, store: RunStore) -> None:
    """The healthy twin and its reference have no finding, and the faulty run has exactly this one."""
    shown = incident(cause, workload, store)
    found = {
        "reference": shown.diagnose(shown.reference),
        "healthy": shown.diagnose(shown.control),
        "faulty": shown.diagnose(shown.suspect),
    }
    causes = {name: [finding.cause for finding in result.findings] for name, result in found.items()}
    assert causes == {"reference": [], "healthy": [], "faulty": [cause]}
    assert (found["reference"].status, found["healthy"].status) == ("healthy", "healthy")
    assert found["faulty"].status == ("inconclusive" if cause == INTEGRITY else "diagnosed")


def test_a_run_alone_says_what_its_reference_would_tell(store: RunStore) -> None:
    """Without an fp32 twin a rule that needs one asks for it, and the others still judge."""
    shown = incident("autocast_cache_no_grad", "digits_mlp", store)
    result = diagnose(Observations(shown.suspect))
    assert result.status == "not_enough_evidence"
    (missing,) = [entry for entry in result.missing if entry.needed_for == "autocast_cache_no_grad"]
    assert missing.observation == "missing_grad_excess"
    assert "--precision fp32" in missing.command


@pytest.mark.parametrize("workload", ["digits_mlp", "byte_lm"])
def test_gradients_at_the_floor_tell_without_a_twin(workload: str, store: RunStore) -> None:
    """fp16 without a loss scale is found from the run alone, less surely; its healthy twin is left in peace."""
    shown = incident("fp16_no_loss_scaling", workload, store)
    alone, twin = diagnose(Observations(shown.suspect)), diagnose(Observations(shown.control))
    assert [finding.cause for finding in alone.findings] == ["fp16_no_loss_scaling"]
    assert alone.findings[0].confidence < shown.diagnose(shown.suspect).findings[0].confidence
    assert twin.findings == []


def test_every_word_belongs_to_an_observation(store: RunStore) -> None:
    """What is explained and no run and no derivation knows is a leftover; what rules need has an explanation."""
    shown = incident("double_unscale", "digits_mlp", store)
    known = set(shown.suspect.summary) | set(Observations(shown.suspect, shown.reference).derived)
    known |= set(RunningSums().summary())  # of scripts that are watched
    assert set(NUMBERS) <= known
    assert {need for rule in RULES.load_all().values() for need in rule.needs} <= set(NUMBERS)
    assert {site for rule in RULES.load_all().values() for site in rule.sites} <= set(TEXTS)


def test_findings_are_ranked_by_confidence() -> None:
    """The best supported cause comes first."""
    fp16 = {"train_formats": "float16", "scaled_attempts": 100, "final_loss_scale": 8.0}
    run = run_of(fp16 | {"clips_before_unscale_share": 1.0, "schedule_lead": 50})
    result = diagnose(Observations(run, run_of()))
    assert [finding.cause for finding in result.findings] == ["clip_before_unscale", "scheduler_on_skipped_steps"]
    assert isinstance(result.findings[0], Finding)


@pytest.mark.parametrize(
    ("flushed", "lost_step", "found"), [(0.5, 5, True), (0.5, 0, False), (0.009, 5, False), (0.01, 1, True)]
)
def test_a_division_by_zero_needs_both_its_signs(flushed: float, lost_step: int, found: bool) -> None:
    """A larger eps makes flushed moments harmless, and weights can be lost for another reason."""
    half = {"half_weight_share": 1.0, "half_state_share": 1.0, "weight_dtypes": "float16"}
    run = run_of(half | {"flushed_moment_share": flushed, "lost_weights_step": lost_step})
    causes = [finding.cause for finding in diagnose(Observations(run, run_of())).findings]
    assert ("low_precision_weights" in causes) == found


@pytest.mark.parametrize(
    ("share", "largest", "level", "status"),
    [
        (0.1, 0.2, "default", "healthy"),
        (0.1, 1.0, "default", "not_enough_evidence"),
        (0.1, 1.0, "full", "healthy"),
        (0.4, 1.0, "default", "diagnosed"),
    ],
)
def test_few_samples_that_disagree_decide_nothing(share: float, largest: float, level: str, status: str) -> None:
    """By default four steps of a short run are looked at, and the learning rate falls between them."""
    half = {"half_weight_share": 1.0, "weight_dtypes": "bfloat16", "observe": level}
    run = run_of(half | {"stalled_half_share": share, "stalled_half_largest": largest})
    result = diagnose(Observations(run))
    assert result.status == status
    if status == "not_enough_evidence":
        assert [entry.needed_for for entry in result.missing] == ["low_precision_weights"]
        assert "--observe full" in result.missing[0].command
