"""What did a run leave behind? A run folder, read tolerantly: a run that died still has its records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.observe.recorder import number

LOG_LINES = 20
"""Lines of a dead rank's output that an error shows."""

MAX_LINE_BYTES = 1_000_000
"""A longer line is no record of ours: they are below 10 kB."""

ORDER = ("oom", "refused", "diverged", "error", "died", "timeout", "interrupted", "completed")
"""States of a rank; where ranks differ, the first of these is the run's: it tells most about the cause."""

Record = dict[str, Any]


@dataclass(frozen=True)
class RankRecords:
    """The records of one rank, and the lines of its file that could not be used."""

    rank: int
    records: list[Record]
    unusable_lines: int = 0
    log_tail: str = ""

    def of(self, event: str) -> list[Record]:
        """Return the records of one kind, in order."""
        return [record for record in self.records if record.get("event") == event]

    def last(self, event: str) -> Record:
        """Return the last record of one kind, or an empty one."""
        found = self.of(event)
        return found[-1] if found else {}

    @property
    def state(self) -> str:
        """How the rank ended; ``died`` when it could not say."""
        state = self.last("end").get("state")
        return state if state in ORDER else "died"


@dataclass(frozen=True)
class Run:
    """One executed run: its folder, its ranks, and how its processes ended."""

    folder: Path
    ranks: list[RankRecords]
    exits: dict[int, str] = field(default_factory=dict)
    """rank -> how its process ended when that was not a normal exit: ``signal 9 (SIGKILL)``."""

    @property
    def state(self) -> str:
        """The state of the whole run: ``completed`` only when every rank completed."""
        states = [rank.state for rank in self.ranks]
        world_size = int(self.start.get("world_size", 1))
        if len(states) < world_size:
            return "died"
        return min(states, key=ORDER.index)

    @property
    def message(self) -> str:
        """Why the run did not complete, naming the rank; empty when it did."""
        parts = []
        for rank in sorted(self.ranks, key=lambda rank: ORDER.index(rank.state)):
            if rank.state != "completed":
                why = self.exits.get(rank.rank) or rank.last("end").get("message") or "its records end early"
                tail = (
                    f"; its last output: {rank.log_tail}" if rank.state in {"died", "error"} and rank.log_tail else ""
                )
                parts.append(f"rank {rank.rank} {rank.state}: {why}{tail}")
        missing = sorted(set(range(int(self.start.get("world_size", 1)))) - {rank.rank for rank in self.ranks})
        parts += [f"rank {n} left no record{': ' + self.exits[n] if n in self.exits else ''}" for n in missing]
        return "; ".join(parts)

    @cached_property
    def start(self) -> Record:
        """The first record of the lowest rank: spec, device, environment, data hash."""
        return self.ranks[0].last("start") if self.ranks else {}

    @cached_property
    def summary(self) -> Record:
        """The observations over the whole run of the lowest rank."""
        found = self.ranks[0].last("end").get("summary") if self.ranks else None
        return found if isinstance(found, dict) else {}

    def value(self, name: str) -> float | None:
        """Return one number of the summary; inf and nan are numbers, anything else is None."""
        return number(self.summary.get(name))

    def series(self, event: str, name: str) -> list[tuple[int, float]]:
        """Return (step, value) of one number over the run."""
        found = self.ranks[0].of(event) if self.ranks else []
        points = ((record.get("step"), number(record.get(name))) for record in found)
        return [(step, value) for step, value in points if isinstance(step, int) and value is not None]


def read_run(folder: Path, exits: dict[int, str] | None = None) -> Run:
    """Read a run folder; a folder without any record is a UsageError."""
    files = sorted(folder.glob("rank*.jsonl")) if folder.is_dir() else []
    ranks = [_read_rank(path) for path in files if path.stem.removeprefix("rank").isdigit()]
    if not ranks and exits is None:
        raise UsageError(f"{folder}: no run folder: it has no rank0.jsonl")
    return Run(folder, sorted(ranks, key=lambda rank: rank.rank), exits or {})


def _read_rank(path: Path) -> RankRecords:
    records, unusable = [], 0
    for record in _records(path):
        if record is None:
            unusable += 1
        else:
            records.append(record)
    return RankRecords(int(path.stem.removeprefix("rank")), records, unusable, _tail(path.with_suffix(".log")))


def _records(path: Path) -> Iterator[Record | None]:
    """Yield each line as a record, None for one that is none."""
    try:
        with path.open("rb") as file:
            while line := file.readline(MAX_LINE_BYTES):
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError):
                    record = None
                yield record if isinstance(record, dict) else None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def _tail(path: Path) -> str:
    try:
        lines = path.read_bytes()[-20_000:].decode("utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    told = [line.strip() for line in lines if line.strip() and "frame #" not in line]
    return " | ".join(told[-LOG_LINES:])[-1500:]
