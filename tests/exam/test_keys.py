"""Is each answer key sound, and is a broken one refused with its file and the place in it?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.config import RunSpec
from harness.diagnose.base import RULES
from harness.diagnose.vocabulary import TEXTS
from harness.engine.workload import WORKLOADS
from harness.errors import UsageError
from harness.exam.incident import BASE
from harness.exam.keys import FOLDER, PARTS, Change, Key, load_key, load_keys
from harness.experiment.store import RunStore
from harness.faults.base import FAULTS
from tests.gallery import SCENARIOS, incident, keys

FILES = sorted(FOLDER.glob("*/*.yaml"))

GOOD: dict[str, Any] = {
    "scenario": "scenario_x",
    "cause": "some_cause",
    "category": "precision",
    "title": "a title",
    "story": "a story",
    "accepts": ["some_cause"],
    "suspect": {"precision": "fp16"},
    "workloads": {"digits_mlp": {}},
    "required_evidence": ["zero_grad_excess"],
    "confirm": {"set": {"precision": "bf16"}, "why": "because"},
    "remedies": [{"part": "scaler", "why": "because"}],
    "cheats": [{"set": {"max_steps": 20}, "why": "because"}],
    "marks": {"diagnosis": 4, "evidence": 3, "remedy": 3},
}
"""A whole key."""


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a key with some fields changed; None leaves a field out."""

    def write(**changes: Any) -> Path:
        path = tmp_path / "scenario_x" / "some_cause.yaml"
        path.parent.mkdir(exist_ok=True)
        data = {name: value for name, value in (GOOD | changes).items() if value is not None}
        path.write_text(yaml.safe_dump(data), encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
class TestKey:
    """The contract of every answer key."""

    def test_file_cause_fault_and_rule_have_one_name(self, path: Path) -> None:
        """What is asked can be injected and diagnosed."""
        key = load_key(path)
        assert path.stem == key.cause
        assert key.cause in FAULTS.names()
        assert RULES.load(key.cause).category == key.category
        assert all(cause in RULES.names() for cause in key.accepts)

    def test_its_evidence_is_what_the_rule_gives(self, path: Path, store: RunStore) -> None:
        """A candidate who names what the rule saw has named what is asked for."""
        key = load_key(path)
        shown = incident(key.cause, next(iter(key.workloads)), store)
        (finding,) = shown.diagnose(shown.suspect).findings
        given = {entry.name for entry in finding.evidence}
        assert set(key.required_evidence) <= given
        assert key.required_evidence
        assert {shown.fault.observation, *TEXTS} & set(key.required_evidence)

    def test_its_workloads_exist_and_have_a_base(self, path: Path) -> None:
        """Each workload is built in, and its scenario knows a run of it."""
        for workload in load_key(path).workloads:
            assert workload in WORKLOADS.names()
            assert workload in BASE

    def test_it_asks_without_giving_the_answer_away(self, path: Path) -> None:
        """Title and story do not hold the cause, and the marks add up to ten."""
        key = load_key(path)
        told = f"{key.title} {key.story}".lower()
        assert key.cause not in told
        assert key.cause.replace("_", " ") not in told
        assert sum(getattr(key.marks, name) for name in key.marks.__struct_fields__) == 10

    def test_it_has_remedies_and_cheats(self, path: Path) -> None:
        """At least one fix counts and two that look like one do not; putting the faulty part right is among them."""
        key = load_key(path)
        assert FAULTS.load(key.cause).part in {change.part for change in key.remedies}
        assert len(key.cheats) >= 2
        assert all(change.why for change in (key.confirm, *key.remedies, *key.cheats))


def test_every_fault_and_every_rule_has_a_key() -> None:
    """Nothing can be injected or diagnosed that nobody asks for."""
    assert sorted(keys()) == FAULTS.names() == RULES.names()


def test_keys_come_in_the_order_of_their_names() -> None:
    """All files of a scenario, and no other."""
    for scenario in SCENARIOS:
        assert [key.cause for key in load_keys(scenario)] == sorted(p.stem for p in FOLDER.glob(f"{scenario}/*.yaml"))
    assert load_keys("no_such_scenario") == []


def test_a_whole_key_is_read(written: Callable[..., Path]) -> None:
    """Every field arrives, and the tolerance has a default."""
    key = load_key(written())
    assert isinstance(key, Key)
    assert (key.confirm, key.tolerance) == (Change(why="because", set={"precision": "bf16"}), 0.02)


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({"hint": "no"}, "unknown field hint"),
    "missing key": ({"story": None}, "story"),
    "wrong type": ({"accepts": "some_cause"}, "accepts: expected array"),
    "wrong type inside": (
        {"marks": {"diagnosis": "four", "evidence": 3, "remedy": 3}},
        "marks.diagnosis: expected int",
    ),
    "negative marks": ({"marks": {"diagnosis": -1, "evidence": 3, "remedy": 3}}, "marks.diagnosis: expected int >= 0"),
    "unknown mark": ({"marks": GOOD["marks"] | {"style": 1}}, "marks: object contains unknown field style"),
    "unknown category": ({"category": "luck"}, "category"),
    "tolerance": ({"tolerance": 1.5}, "tolerance"),
    "both": ({"confirm": {"part": "scaler", "set": {"lr": 1}, "why": "x"}}, "confirm: a change needs exactly one of"),
    "neither": ({"remedies": [GOOD["remedies"][0], {"why": "x"}]}, r"remedies\[1\]: a change needs exactly one of"),
    "no reason": ({"cheats": [{"part": "scaler"}]}, r"cheats\[0\]"),
    "unknown part": (
        {"remedies": [{"part": "engine", "why": "x"}]},
        r"remedies\[0\].part: got 'engine', accepted are spec",
    ),
    "unknown field": ({"cheats": [{"set": {"speed": 1}, "why": "x"}]}, r"cheats\[0\].set: unknown part 'speed'"),
    "wrong value": ({"confirm": {"set": {"precision": "fp8"}, "why": "x"}}, "confirm.set: precision: got 'fp8'"),
    "suspect": ({"suspect": {"batch_size": 0}}, "suspect with workloads.digits_mlp: batch_size: got 0"),
    "workload": (
        {"workloads": {"digits_mlp": {"sise": "tiny"}}},
        "suspect with workloads.digits_mlp: unknown part 'sise'",
    ),
    "accepts": ({"accepts": ["another"]}, "accepts must contain the cause 'some_cause'"),
    "other cause": ({"cause": "another"}, "is for scenario_x/another; file and folder must have these names"),
    "other scenario": ({"scenario": "scenario_y"}, "file and folder must have these names"),
}


@pytest.mark.parametrize("mistake", BROKEN)
def test_a_broken_key_is_refused_with_file_and_place(mistake: str, written: Callable[..., Path]) -> None:
    """One sentence that begins with the file and names the place in it."""
    changes, message = BROKEN[mistake]
    path = written(**changes)
    with pytest.raises(UsageError, match=message) as caught:
        load_key(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "scenario: [", "cause: a\ncause: b\n", "just text"])
def test_what_is_no_key_at_all_is_refused(text: str, tmp_path: Path) -> None:
    """Empty, a list, half a file, a key given twice."""
    path = tmp_path / "broken.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"broken\.yaml"):
        load_key(path)


def test_every_part_of_a_run_can_be_put_right() -> None:
    """The parts that a key may name are those that a fault may change."""
    assert {FAULTS.load(name).part for name in FAULTS.names()} <= set(PARTS)
    assert "spec" in PARTS
    assert "workload" in RunSpec.__struct_fields__


@pytest.mark.parametrize(
    ("change", "label"),
    [
        (Change(why="because", part="scaler"), "scaler put right"),
        (Change(why="because", set={"precision": "bf16", "lr": 0.01}), "precision=bf16, lr=0.01"),
    ],
)
def test_a_change_is_told_in_a_few_words(change: Change, label: str) -> None:
    """The part or the fields, without the reason."""
    assert change.label == label
