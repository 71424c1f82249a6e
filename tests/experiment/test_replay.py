"""Does a replay repeat what was recorded, judge it by the record's own tolerance, and run nothing else?"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import EvidenceError, UsageError
from harness.experiment.replay import ReplayResult, compare, replay
from harness.experiment.replay_command import CommandEnd
from harness.observe.chain import Tolerance
from harness.observe.evidence import FILE_NAME, Entry, EvidenceLog

TRAIN = ["python", "train.py", "--precision", "fp32", "--devices", "1", "--seed", "42"]


class FakeRunner:
    """Stands for training: notes its words and leaves a run folder with one ``end`` event."""

    def __init__(self, summary: Any, *, state: str = "completed", status: int = 0) -> None:
        self.end = {"event": "end", "state": state, "summary": summary}
        self.status = status
        self.calls: list[list[str]] = []

    def __call__(self, words: list[str]) -> CommandEnd:
        """Leave the run folder of one run."""
        self.calls.append(words)
        out = Path(words[-1])
        assert not out.exists()
        out.mkdir()
        events = [{"event": "step", "step": 1, "loss": 2.0}, {"event": "end", "summary": {}}, self.end]
        (out / "rank0.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        return CommandEnd(self.status, "last words")


def forbidden(words: list[str]) -> CommandEnd:
    """Stand for a runner that must not be reached."""
    pytest.fail(f"was run: {words}")


def entry(**fields: Any) -> dict[str, Any]:
    """Return the fields of a check with one number."""
    return {"command": TRAIN, "values": {"val_metric": 0.9}, "tolerance": Tolerance(absolute=0.01)} | fields


@pytest.fixture
def log_of(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a log with these checks; the first one has ``seq`` 2."""

    def write(*checks: dict[str, Any]) -> Path:
        with EvidenceLog.open(tmp_path) as log:
            place = log.environment({"cpu": "a"})
            for fields in checks:
                log.append(Entry(environment=place, expected="x", observed=1, verdict="PASSED", **fields))
            log.close(len(checks), len(checks))
        return tmp_path

    return write


def test_number_within_its_tolerance_passes(log_of: Callable[..., Path]) -> None:
    """The new number, the recorded one and the bounds stand side by side."""
    [result] = replay(log_of(entry()), run=FakeRunner({"val_metric": 0.905}))
    assert result == ReplayResult(2, "val_metric", "PASSED", 0.9, 0.905, 0.9 - 0.01, 0.9 + 0.01)


def test_number_outside_its_tolerance_fails(log_of: Callable[..., Path]) -> None:
    """A number that does not come out again fails and says by which bounds."""
    [result] = replay(log_of(entry()), run=FakeRunner({"val_metric": 0.8}))
    assert (result.outcome, result.reason) == ("FAILED", "0.8 is not within 0.89 to 0.91")


@pytest.mark.parametrize(
    ("recorded", "replayed", "tolerance", "outcome"),
    [
        (2.0, 2.0, None, "PASSED"),
        (2.0, math.nextafter(2.0, 3.0), None, "FAILED"),
        (2.0, 2.2, Tolerance(relative=0.1), "PASSED"),
        (-2.0, -2.2, Tolerance(relative=0.1), "PASSED"),
        (-2.0, 2.0, Tolerance(relative=1.0), "FAILED"),
        (0.0, 0.05, Tolerance(relative=0.1, absolute=0.1), "PASSED"),
        (2.0, None, Tolerance(relative=1.0), "FAILED"),
        (2.0, math.nan, Tolerance(absolute=1e29), "FAILED"),
        (2.0, math.inf, Tolerance(absolute=1e29), "FAILED"),
        (math.nan, 2.0, Tolerance(absolute=1e29), "FAILED"),
        (math.nan, math.nan, None, "PASSED"),
        (math.inf, math.inf, Tolerance(relative=0.1), "PASSED"),
        (math.inf, -math.inf, Tolerance(relative=0.1), "FAILED"),
        (math.inf, 1e308, Tolerance(relative=0.1), "FAILED"),
    ],
)
def test_comparison_is_positive(recorded: float, replayed: float, tolerance: Tolerance, outcome: str) -> None:
    """Only a number inside the bounds passes: what is missing or not finite does not slip through."""
    result = compare(2, "loss", recorded, replayed, tolerance)
    assert result.outcome == outcome
    assert bool(result.reason) == (outcome == "FAILED")


@pytest.mark.parametrize("summary", [{}, {"val_metric": None}, {"val_metric": "high"}, {"val_metric": True}])
def test_missing_number_fails(log_of: Callable[..., Path], summary: dict[str, Any]) -> None:
    """A run without the recorded number does not repeat it."""
    [result] = replay(log_of(entry()), run=FakeRunner(summary))
    assert (result.outcome, result.reason) == ("FAILED", "the new run has no such number")


def test_train_command_gets_a_fresh_folder(log_of: Callable[..., Path]) -> None:
    """The command runs with this interpreter, and its last --out is a folder that is gone afterwards."""
    runner = FakeRunner({"val_metric": 0.9})
    replay(log_of(entry(command=[*TRAIN, "--out", "runs/mine"])), run=runner)
    [words] = runner.calls
    assert words[:-1] == [sys.executable, *TRAIN[1:], "--out", "runs/mine", "--out"]
    assert not Path(words[-1]).parent.exists()


def test_equal_commands_run_once(log_of: Callable[..., Path]) -> None:
    """Several checks of one run are compared with one new run."""
    runner = FakeRunner({"val_metric": 0.9, "loss": 1.0})
    results = replay(log_of(entry(), entry(values={"val_metric": 0.9, "loss": 2.0})), run=runner)
    assert [(result.seq, result.name, result.outcome) for result in results] == [
        (2, "val_metric", "PASSED"),
        (3, "loss", "FAILED"),
        (3, "val_metric", "PASSED"),
    ]
    assert len(runner.calls) == 1


def test_one_record_can_be_chosen(log_of: Callable[..., Path]) -> None:
    """Only the chosen record is run."""
    runner = FakeRunner({"val_metric": 0.9})
    other = entry(command=[*TRAIN, "--batch-size", "8"])
    assert [result.seq for result in replay(log_of(entry(), other), record=3, run=runner)] == [3]
    assert len(runner.calls) == 1


@pytest.mark.parametrize("record", [0, -1, 5])
def test_record_that_is_not_there_is_a_sentence(log_of: Callable[..., Path], record: int) -> None:
    """An unknown number names those that there are."""
    with pytest.raises(EvidenceError, match=f"there is no record {record}; there are 1 to 3"):
        replay(log_of(entry()), record=record, run=forbidden)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"values": {}}, "it holds no numbers to compare"), ({"command": []}, "it holds no command")],
)
def test_record_without_numbers_is_skipped(log_of: Callable[..., Path], fields: dict[str, Any], reason: str) -> None:
    """A check that nothing can be compared with says so and does not count as passed."""
    assert replay(log_of(entry(**fields)), run=forbidden) == [ReplayResult(2, "", "SKIPPED", reason=reason)]


@pytest.mark.parametrize(("record", "kind"), [(1, "environment"), (3, "terminal")])
def test_other_records_are_refused_when_chosen(log_of: Callable[..., Path], record: int, kind: str) -> None:
    """An environment or terminal record has no command; the sentence names the records that have one."""
    said = f"--record {record} has nothing to repeat: it is the {kind} record, which holds no command; accepted are 2$"
    with pytest.raises(UsageError, match=said):
        replay(log_of(entry()), record=record, run=forbidden)


def test_records_that_can_be_repeated_are_named_as_ranges(log_of: Callable[..., Path]) -> None:
    """A long log is one sentence too."""
    log = log_of(entry(), entry(), entry(), entry(command=[]), entry())
    with pytest.raises(UsageError, match=r"--record 5 has nothing .* holds no command; accepted are 2 to 4, 6$"):
        replay(log, record=5, run=forbidden)


def test_changed_log_is_not_replayed(log_of: Callable[..., Path]) -> None:
    """A log whose chain is broken anywhere is refused before anything runs."""
    file = log_of(entry(), entry()) / FILE_NAME
    file.write_text(file.read_text().replace('"seq": 4', '"seq": 5'))
    with pytest.raises(EvidenceError, match="line 4"):
        replay(file.parent, run=forbidden)


@pytest.mark.parametrize("state", ["diverged", "oom"])
def test_recorded_failure_is_repeated(log_of: Callable[..., Path], state: str) -> None:
    """To diverge or to run out of memory can be the very thing that was recorded."""
    runner = FakeRunner({"val_metric": 0.9}, state=state, status=1)
    assert [result.outcome for result in replay(log_of(entry()), run=runner)] == ["PASSED"]


@pytest.mark.parametrize(
    ("state", "status"), [("completed", 1), ("completed", -9), ("error", 1), ("refused", 2), ("timeout", 124)]
)
def test_broken_run_is_an_error(log_of: Callable[..., Path], state: str, status: int) -> None:
    """Numbers of a run that broke are not compared; the reason holds its last words."""
    runner = FakeRunner({"val_metric": 0.9}, state=state, status=status)
    [result] = replay(log_of(entry()), run=runner)
    assert (result.outcome, result.recorded, result.replayed) == ("ERROR", 0.9, None)
    assert result.reason == f"the new run ended as '{state}' with status {status}: last words"


@pytest.mark.parametrize(
    "command", [["rm", "-rf", "/"], [*TRAIN, "--workload", "evil.py:factory"], ["gpu-exam", "watch", "--", "sh"]]
)
def test_refused_command_is_an_error_in_the_list(log_of: Callable[..., Path], command: list[str]) -> None:
    """A record that must not run says why; the others are replayed."""
    first, second = replay(log_of(entry(command=command), entry()), run=FakeRunner({"val_metric": 0.9}))
    assert (first.seq, first.name, first.outcome, first.recorded) == (2, "val_metric", "ERROR", 0.9)
    assert first.reason
    assert (second.seq, second.outcome) == (3, "PASSED")


def run_that_leaves(text: str | None) -> Callable[[list[str]], CommandEnd]:
    """Return a runner whose run leaves this text as its records, or no records."""

    def run(words: list[str]) -> CommandEnd:
        out = Path(words[-1])
        out.mkdir()
        if text is not None:
            (out / "rank0.jsonl").write_text(text)
        return CommandEnd(1, "last words")

    return run


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "did not reach its end; its status is 1: last words"),
        ("", "did not reach its end"),
        ('{"event": "step"}\n[1]\n', "did not reach its end"),
        ('{"event": "end", "state": "oom"}\n', "has no summary"),
        ('{"event": "en', "cannot be read"),
        ("[" * 100_000, "cannot be read"),
    ],
)
def test_run_without_records_is_an_error(log_of: Callable[..., Path], text: str | None, reason: str) -> None:
    """A run that left nothing to compare is an error with its reason, not a traceback."""
    [result] = replay(log_of(entry()), run=run_that_leaves(text))
    assert result.outcome == "ERROR"
    assert reason in result.reason
