"""Do the recorded numbers come out again? Runs the commands of an evidence log anew and compares."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import EvidenceError, HarnessError, UsageError
from harness.experiment.replay_command import CommandEnd, Runner, replay_words, run_command
from harness.observe.chain import Record, Tolerance
from harness.observe.evidence import FILE_NAME, read_records
from harness.observe.outcome import Outcome
from harness.observe.recorder import number

ENDS_WITH_NUMBERS = {"completed", "diverged", "oom"}
"""States of a run whose numbers count: to diverge or to run out of memory can be what was recorded."""


@dataclass(frozen=True)
class ReplayResult:
    """One recorded number beside the repeated one; PASSED when ``low <= replayed <= high``."""

    seq: int
    name: str
    """Name of the number; empty when the record as a whole was skipped."""
    outcome: Outcome
    recorded: float | None = None
    replayed: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""
    """Why it did not pass; empty when it did."""


def replay(
    folder: Path, record: int | None = None, run: Runner = run_command, *, trust: bool = False
) -> list[ReplayResult]:
    """Run the commands of all check records, or of the one with this ``seq``, and compare their numbers.

    Equal commands run once. ``trust`` also runs commands that load a file (a workload, a configuration,
    a checkpoint) or start another entry point than train.py: these can execute code that the log's
    author chose. EvidenceError when the chain is broken or holds no such record, UsageError when the
    chosen one has nothing to repeat; a single record that cannot be replayed is an ERROR in the list.
    """
    why = {found.seq: _why_not(found) for found in read_records(folder)}  # the whole chain, before anything runs
    if record is not None and record not in why:
        raise EvidenceError(f"{folder / FILE_NAME}: there is no record {record}; there are 1 to {max(why, default=0)}")
    if record is not None and why[record]:
        able = _ranges([seq for seq, reason in why.items() if not reason])
        raise UsageError(f"--record {record} has nothing to repeat: {why[record]}; accepted are {able or 'none'}")
    runs = _Runs(run, trust)
    chosen = (found for found in read_records(folder) if found.kind == "check" and record in {None, found.seq})
    return [result for found in chosen for result in _results(found, runs)]


def compare(seq: int, name: str, recorded: float, replayed: float | None, tolerance: Tolerance | None) -> ReplayResult:
    """Judge one number within the record's own tolerance.

    A number that is missing or NaN is outside every bound; a recorded NaN is reproduced by a NaN only.
    """
    low, high = bounds(recorded, tolerance or Tolerance())
    if replayed is None:
        return ReplayResult(seq, name, "FAILED", recorded, None, low, high, "the new run has no such number")
    both_nan = recorded != recorded and replayed != replayed  # noqa: PLR0124 - only NaN differs from itself
    if low <= replayed <= high or both_nan:
        return ReplayResult(seq, name, "PASSED", recorded, replayed, low, high)
    reason = f"{replayed:g} is not within {low:g} to {high:g}"
    return ReplayResult(seq, name, "FAILED", recorded, replayed, low, high, reason)


def bounds(recorded: float, tolerance: Tolerance) -> tuple[float, float]:
    """Return the lowest and highest number that still counts as the same: the wider of the two tolerances."""
    margin = max(tolerance.absolute, tolerance.relative * abs(recorded)) if abs(recorded) < float("inf") else 0.0
    return recorded - margin, recorded + margin


def read_summary(folder: Path, end: CommandEnd) -> dict[str, Any]:
    """Return the summary in the last ``end`` event of rank 0.

    EvidenceError when the run left none, or when ``end`` or the event says that its numbers do not count.
    """
    event = _end_event(folder / "rank0.jsonl")
    if event is None:
        raise EvidenceError(f"the new run did not reach its end; its status is {end.status}: {end.tail}")
    state, summary = event.get("state", "completed"), event.get("summary")
    if state not in ENDS_WITH_NUMBERS or (state == "completed" and end.status != 0):
        raise EvidenceError(f"the new run ended as {state!a} with status {end.status}: {end.tail}")
    if not isinstance(summary, dict):
        raise EvidenceError("the new run's 'end' event in rank0.jsonl has no summary")
    return summary


@dataclass
class _Runs:
    """The repeated runs; each command is run once."""

    run: Runner
    trust: bool
    done: dict[tuple[str, ...], dict[str, Any] | HarnessError] = field(default_factory=dict)

    def summary(self, command: list[str]) -> dict[str, Any]:
        key = tuple(command)
        if key not in self.done:
            try:
                self.done[key] = self._repeat(command)
            except HarnessError as error:
                self.done[key] = error
        found = self.done[key]
        if isinstance(found, HarnessError):
            raise found
        return found

    def _repeat(self, command: list[str]) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="gpu-exam-replay-", ignore_cleanup_errors=True) as scratch:
            out = Path(scratch) / "run"
            return read_summary(out, self.run(replay_words(command, out, trust=self.trust)))


def _results(record: Record, runs: _Runs) -> list[ReplayResult]:
    if reason := _why_not(record):
        return [ReplayResult(record.seq, "", "SKIPPED", reason=reason)]
    numbers = {name: float(value) for name, value in record.values.items()}
    try:
        summary = runs.summary(record.command)
    except HarnessError as error:
        return [ReplayResult(record.seq, name, "ERROR", value, reason=str(error)) for name, value in numbers.items()]
    return [
        compare(record.seq, name, value, number(summary.get(name)), record.tolerance) for name, value in numbers.items()
    ]


def _why_not(record: Record) -> str:
    """Return why there is nothing to compare, or an empty text."""
    if record.kind != "check":
        return f"it is the {record.kind} record, which holds no command"
    if not record.values:
        return "it holds no numbers to compare"
    return "" if record.command else "it holds no command"


def _ranges(numbers: list[int]) -> str:
    """Return ``1 to 3, 7`` for 1, 2, 3 and 7."""
    there = set(numbers)
    starts = [n for n in numbers if n - 1 not in there]
    ends = [n for n in numbers if n + 1 not in there]
    return ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in zip(starts, ends, strict=True))


def _end_event(path: Path) -> dict[str, Any] | None:
    """Return the last ``end`` event in ``path``; None when the file or the event is absent."""
    found = None
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                event = json.loads(line)
                if isinstance(event, dict) and event.get("event") == "end":
                    found = event
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise EvidenceError(f"the new run's rank0.jsonl cannot be read: {error}") from error
    return found
