"""Can each of the five invariants fail, and does it say why?"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from harness.config import RunSpec
from harness.exam.baseline import baseline
from harness.exam.incident import Incident
from harness.exam.invariants import INVARIANTS, Judgement, confirm, control, diagnosis, objection, remedy, symptom
from harness.exam.keys import Change, Key
from harness.experiment.store import RunStore
from harness.runs import Run
from tests.diagnose.records import edited
from tests.gallery import SevereIncident, incident, keys, tiny

CAUSE = "fp16_no_loss_scaling"


def with_key(store: RunStore, cause: str = CAUSE, **changes: Any) -> Incident:
    """Return an incident whose answer key says something else."""
    shown = incident(cause, "digits_mlp", store)
    return Incident(msgspec.structs.replace(shown.key, **changes), shown.workload, shown.device, store)


class Edited(Incident):
    """An incident whose runs say something else than they did."""

    edits: dict[str, Any]

    @classmethod
    def of(cls, shown: Incident, **edits: Any) -> Edited:
        """Return the incident; each edit names a run and the summary entries that it is given."""
        made = cls(shown.key, shown.workload, shown.device, shown.store)
        made.edits = edits
        return made

    def _edited(self, name: str, run: Run) -> Run:
        given = self.edits.get(name, {})
        if "state" in given:
            return edited(run, lambda record: record | ({"state": given["state"]} if record["event"] == "end" else {}))

        def change(record: dict[str, Any]) -> dict[str, Any]:
            return record | ({"summary": record["summary"] | given} if "summary" in record else {})

        return edited(run, change)

    @property
    def control(self) -> Run:
        """The healthy twin, edited."""
        return self._edited("control", super().control)

    @property
    def suspect(self) -> Run:
        """The faulty run, edited."""
        return self._edited("suspect", super().suspect)

    @property
    def reference(self) -> Run:
        """The reference, edited."""
        return self._edited("reference", super().reference)

    def after(self, change: Change) -> Run:
        """The run after a change, edited."""
        return self._edited("after", super().after(change))


@pytest.mark.parametrize("name", INVARIANTS)
def test_a_sound_incident_passes_every_invariant(name: str, store: RunStore) -> None:
    """Each judgement names the runs behind it."""
    judgement = INVARIANTS[name](incident(CAUSE, "digits_mlp", store))
    assert judgement.outcome == "PASSED", judgement
    assert all(spec.workload == "digits_mlp" for spec in judgement.specs)
    assert judgement.specs


def test_each_invariant_says_what_it_checks() -> None:
    """The first line of its docstring is its title in the report."""
    assert list(INVARIANTS) == ["control", "symptom", "diagnosis", "confirm", "remedy"]
    assert all((check.__doc__ or "").splitlines()[0].endswith(".") for check in INVARIANTS.values())


@pytest.mark.parametrize(
    ("cause", "severity"),
    [("fp16_activation_overflow", 1.0), ("static_scale_overflow", 4.0), ("eval_precision_mismatch", 0.01)],
)
def test_a_fault_that_is_too_mild_shows_no_symptom(cause: str, severity: float, store: RunStore) -> None:
    """With a small severity the observation stays within its bound, and nothing is diagnosed."""
    shown = incident(cause, "digits_mlp", store)
    mild = SevereIncident(shown.key, shown.workload, shown.device, store, severity=severity)
    judgement = symptom(mild)
    assert judgement.outcome == "FAILED"
    assert judgement.reason.startswith("healthy twin: ")
    assert diagnosis(mild).outcome == "FAILED"


@pytest.mark.parametrize("value", [None, math.nan, "much"])
def test_a_symptom_that_is_no_number_fails(value: Any, store: RunStore) -> None:
    """Bounds are tested positively: what is missing has not moved."""
    shown = Edited.of(incident("static_scale_overflow", "digits_mlp", store), suspect={"skipped_share_late": value})
    assert symptom(shown).outcome == "FAILED"


def test_a_finding_on_the_healthy_twin_fails_the_control(store: RunStore) -> None:
    """The reason names what was found."""
    shown = Edited.of(incident(CAUSE, "digits_mlp", store), control={"clips_before_unscale_share": 1.0})
    judgement = control(shown)
    assert (judgement.outcome, judgement.reason) == ("FAILED", "diagnosis: clip_before_unscale")


def test_a_healthy_twin_beyond_the_bound_fails_the_control(store: RunStore) -> None:
    """The declared observation must be calm without the fault."""
    shown = Edited.of(incident("fp16_activation_overflow", "digits_mlp", store), control={"activation_range_used": 0.6})
    judgement = control(shown)
    assert (judgement.outcome, judgement.observed, judgement.high) == ("FAILED", 0.6, 0.5)


@pytest.mark.parametrize(
    ("run", "state", "outcome"),
    [
        ("control", "refused", "SKIPPED"),
        ("reference", "error", "ERROR"),
        ("control", "died", "ERROR"),
        ("control", "timeout", "TIMEOUT"),
        ("reference", "refused", "SKIPPED"),
    ],
)
def test_a_run_that_proves_nothing_is_no_verdict(run: str, state: str, outcome: str, store: RunStore) -> None:
    """What was refused is skipped, what broke is an error; neither is passed or failed."""
    shown = Edited.of(incident(CAUSE, "digits_mlp", store), **{run: {"state": state}})
    assert control(shown).outcome == outcome
    assert symptom(Edited.of(shown, suspect={"state": state})).outcome == outcome


def test_a_key_that_accepts_another_cause_fails_the_diagnosis(store: RunStore) -> None:
    """The diagnosis is measured: it does not follow the key."""
    judgement = diagnosis(with_key(store, accepts=["scaler_state_lost"]))
    assert judgement.outcome == "FAILED"
    assert judgement.observed == f"precision: {CAUSE}"
    assert judgement.expected == "precision: scaler_state_lost"


def test_a_key_with_another_category_fails_the_diagnosis(store: RunStore) -> None:
    """The right cause in the wrong category is no right answer."""
    assert diagnosis(with_key(store, category="memory")).outcome == "FAILED"


def test_evidence_that_the_finding_lacks_fails_the_diagnosis(store: RunStore) -> None:
    """The reason names what is lacking."""
    judgement = diagnosis(with_key(store, required_evidence=["zero_grad_excess", "loss_curvature"]))
    assert judgement.outcome == "FAILED"
    assert judgement.reason.endswith("Evidence lacking: loss_curvature.")


def test_no_finding_at_all_fails_the_diagnosis(store: RunStore) -> None:
    """A fault too mild to show leaves a run that is healthy."""
    judgement = diagnosis(SevereIncident(keys()["static_scale_overflow"], "digits_mlp", "cpu", store, severity=4.0))
    assert (judgement.outcome, judgement.observed, judgement.reason) == ("FAILED", "healthy", "no finding")


def test_a_change_that_does_not_help_confirms_nothing(store: RunStore) -> None:
    """The observation stays beyond its bound."""
    judgement = confirm(with_key(store, confirm=Change(why="no", set={"seed": 43})))
    assert judgement.outcome == "FAILED"
    assert isinstance(judgement.observed, float)
    assert judgement.observed > 0.05


def remedied(store: RunStore, change: Change, cause: str = CAUSE) -> Judgement:
    """Judge an incident whose only remedy is this change."""
    return remedy(with_key(store, cause, remedies=[change]))


CHEATS: dict[str, tuple[dict[str, Any], str]] = {
    "less work": ({"max_steps": 50}, "not the same work: steps is 50.0, not 100.0"),
    "fewer samples": ({"batch_size": 32}, "not the same work: samples_seen is 3200.0, not 6400.0"),
    "other model": ({"size": "small"}, "not the same work: num_parameters is "),
    "other data": ({"workload": "digits_cnn"}, "not the same work: num_parameters is "),
    "check removed": ({"observe": "off"}, "zero_grad_excess is not observed"),
    "no effect": ({"lr": 3e-2}, "zero_grad_excess is 0."),
    "hides it": ({"precision": "bf16", "lr": 1e-6}, "the metric is still "),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_is_no_remedy(cheat: str, store: RunStore) -> None:
    """Each is refused, and for the right reason."""
    change, reason = CHEATS[cheat]
    judgement = remedied(store, Change(why="looks good", set=change))
    assert judgement.outcome == "FAILED"
    assert f"was not accepted: {reason}" in judgement.reason


def test_putting_another_part_right_is_no_remedy(store: RunStore) -> None:
    """The fault is still there."""
    judgement = remedied(store, Change(why="looks good", part="schedule"))
    assert "schedule put right was not accepted: zero_grad_excess is" in judgement.reason


def test_a_real_remedy_listed_as_a_cheat_fails(store: RunStore) -> None:
    """The list of cheats is checked too."""
    judgement = remedy(with_key(store, cheats=[Change(why="no", set={"precision": "bf16"})]))
    assert judgement.outcome == "FAILED"
    assert judgement.reason == "the cheat precision=bf16 was accepted"


def test_a_key_without_a_remedy_fails(store: RunStore) -> None:
    """No fix is no success."""
    assert remedy(with_key(store, remedies=[])).outcome == "FAILED"


@pytest.mark.parametrize(("metric", "accepted"), [(None, False), (math.nan, False), (math.inf, False), (0.0, False)])
def test_a_metric_that_is_not_restored_is_no_remedy(metric: Any, accepted: bool, store: RunStore) -> None:
    """What is no number is infinitely worse."""
    shown = Edited.of(incident(CAUSE, "digits_mlp", store), after={"val_metric": metric})
    assert (objection(shown, Change(why="", set={"precision": "bf16"})) == "") is accepted


def test_a_run_that_broke_is_no_remedy(store: RunStore) -> None:
    """The reason is how it ended."""
    shown = Edited.of(incident(CAUSE, "digits_mlp", store), after={"state": "oom"})
    assert objection(shown, Change(why="", set={"precision": "bf16"})) == "the run ended as oom"


def test_an_incident_that_cannot_be_described_says_why(store: RunStore) -> None:
    """A user's settings may contradict what the cause needs."""
    key: Key = keys()["scaler_state_lost"]
    shown = Incident(key, "digits_cnn", "cpu", store, overrides={"max_steps": 20})
    assert "restart_at=40 must be below max_steps=20" in shown.impossible
    assert incident(CAUSE, "digits_mlp", store).impossible == ""


def test_what_a_session_sets_reaches_every_run(store: RunStore) -> None:
    """The seed and a configuration file apply to control, suspect and reference; the key's own needs come last."""
    shown = Incident(keys()["low_precision_weights"], "digits_mlp", "cpu", store, {"seed": 7, "lr": 0.5})
    for spec, _ in shown.runs()[:3]:
        assert (spec.seed, spec.lr, spec.observe) == (7, 1e-4, "full")
    assert [spec.fault != "" for spec, _ in shown.runs()[:3]] == [False, False, True]


class Repeated:
    """A store whose runs of one spec differ as told."""

    def __init__(self, *runs: Run) -> None:
        self.runs = runs

    def get(self, spec: RunSpec, repeat: int = 0) -> Run:
        """Return the run of this repeat."""
        return self.runs[repeat]


def test_a_baseline_repeats_itself(store: RunStore) -> None:
    """On one core the same spec gives the same losses, bitwise."""
    judgement = baseline(store, tiny(observe="default"))
    assert (judgement.outcome, judgement.observed, judgement.high) == ("PASSED", 0.0, 0.0)


def test_a_baseline_that_does_not_repeat_itself_fails(store: RunStore) -> None:
    """The largest relative difference of a loss is what was observed."""
    run = store.get(tiny(observe="default"))
    other = edited(run, lambda record: record | ({"loss": record["loss"] * 1.01} if "loss" in record else {}))
    judgement = baseline(Repeated(run, other), tiny())  # type: ignore[arg-type]
    assert judgement.outcome == "FAILED"
    assert judgement.observed == pytest.approx(0.01)


@pytest.mark.parametrize("loss", [math.nan, None, "none", "inf"])
def test_losses_that_are_no_numbers_are_no_baseline(loss: Any, store: RunStore) -> None:
    """NaN in both runs is not equal, and a missing loss is not zero."""
    run = store.get(tiny(observe="default"))
    spoilt = edited(run, lambda record: record | ({"loss": loss} if "loss" in record else {}))
    assert baseline(Repeated(spoilt, spoilt), tiny()).outcome == "FAILED"  # type: ignore[arg-type]


def test_a_baseline_that_did_not_complete_fails_with_its_reason(store: RunStore) -> None:
    """Equal losses of broken runs are no baseline."""
    run = store.get(tiny(observe="default"))
    broken = edited(
        run, lambda record: record | ({"state": "oom", "message": "full"} if record["event"] == "end" else {})
    )
    judgement = baseline(Repeated(broken, broken), tiny())  # type: ignore[arg-type]
    assert (judgement.outcome, judgement.reason) == ("FAILED", "rank 0 oom: full")
