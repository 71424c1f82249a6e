"""What did a run leave behind? A run folder, read tolerantly: a run that died still has its records."""

from __future__ import annotations

import contextlib
import json
import math
import os
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

EXITS = "exits.json"
"""Written by the launcher when a process did not end by itself: rank -> how."""

LOST = "lost another rank"
"""Begins the message of a rank that ended because of another one."""

STOPPED = "stopped because another rank died"
"""How the launcher ended a rank that was left alone."""


LATE = "no end within"
"""Begins how the launcher ended a rank that was late."""

MAX_RANKS = 100_000
"""No training is known with more ranks; a record that claims more is broken."""

SMALLEST_METRIC = 1e-12
"""A metric of exactly zero is taken for this size when another one is related to it."""

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
        if self._missing:
            return "died"
        states = [self.state_of(rank) for rank in self.ranks if not self._is_consequence(rank)]
        return min(states or [rank.state for rank in self.ranks], key=ORDER.index)

    def state_of(self, rank: RankRecords) -> str:
        """Return how a rank ended, as its last record and the end of its process tell together."""
        how = self.exits.get(rank.rank, "")
        if how.startswith(LATE):
            return "timeout"
        # A process that says it completed and then ends by a signal or another exit code has not.
        return "died" if how and rank.state == "completed" else rank.state

    def _is_consequence(self, rank: RankRecords) -> bool:
        return self.exits.get(rank.rank) == STOPPED or self._told(rank).startswith(LOST)

    def _told(self, rank: RankRecords) -> str:
        return str(rank.last("end").get("message") or "")

    def _why(self, rank: RankRecords) -> str:
        how = self.exits.get(rank.rank, "")
        if how == STOPPED or how.startswith(LATE):
            return how
        return self._told(rank) or how or "its records end early"

    @property
    def _missing(self) -> list[int]:
        if self.start.get("watched"):
            # A process of somebody else's command: what becomes of the others is no part of this run.
            return []
        claimed = self.start.get("world_size")
        world_size = claimed if isinstance(claimed, int) and 1 <= claimed <= MAX_RANKS else 1
        return sorted({*range(world_size), *self.exits} - {rank.rank for rank in self.ranks})

    @property
    def message(self) -> str:
        """Why the run did not complete, naming the rank; empty when it did."""
        parts = []
        for rank in sorted(self.ranks, key=lambda rank: (self._is_consequence(rank), ORDER.index(self.state_of(rank)))):
            if self.state_of(rank) != "completed":
                tail = _shown(rank.log_tail) if rank.state in {"died", "error"} else ""
                parts.append(f"rank {rank.rank} {self.state_of(rank)}: {self._why(rank)}{tail}")
        for n in self._missing:
            why = f": {self.exits[n]}" if self.exits.get(n) else ""
            parts.append(f"rank {n} left no record{why}{_shown(_tail(self.folder / f'rank{n}.log'))}")
        return "; ".join(parts)

    @cached_property
    def start(self) -> Record:
        """The first record of the lowest rank: spec, device, environment, data hash."""
        return self.ranks[0].last("start") if self.ranks else {}

    @cached_property
    def summary(self) -> Record:
        """The observations over the whole run of the lowest rank; of a process that was killed, the last it kept."""
        ends = [self.ranks[0].last(event).get("summary") for event in ("end", "so_far")] if self.ranks else []
        return next((found for found in ends if isinstance(found, dict)), {})

    def value(self, name: str) -> float | None:
        """Return one number of the summary; inf and nan are numbers, anything else is None."""
        return number(self.summary.get(name))

    def series(self, event: str, name: str) -> list[tuple[int, float]]:
        """Return (step, value) of one number over the run."""
        found = self.ranks[0].of(event) if self.ranks else []
        points = ((record.get("step"), number(record.get(name))) for record in found)
        return [(step, value) for step, value in points if isinstance(step, int) and value is not None]


def relative_loss(mine: float | None, theirs: float | None, goal: object) -> float | None:
    """Return how much worse a metric is than another one, relative to that: 0.02 is two per cent, negative is better.

    ``goal`` is the recorded one: ``min`` or anything else for ``max``. Inf when ``mine`` is no finite number, None when
    one of them is unknown or ``theirs`` is NaN, for then there is nothing to compare with.
    """
    if mine is None or theirs is None or math.isnan(theirs):
        return None
    if not math.isfinite(mine):
        return math.inf
    sign = -1.0 if goal == "min" else 1.0
    return sign * (theirs - mine) / max(abs(theirs), SMALLEST_METRIC)


def read_run(folder: Path, exits: dict[int, str] | None = None) -> Run:
    """Read a run folder; a folder without any record is a UsageError, unless its launcher gives the ``exits``."""
    files = sorted(folder.glob("rank*.jsonl")) if folder.is_dir() else []
    ranks = [_read_rank(path) for path in files if path.stem.removeprefix("rank").isdecimal()]
    exits = _read_exits(folder / EXITS) if exits is None else exits
    if not ranks and not exits:
        inside = next(folder.glob("runs/*/rank0.jsonl"), None)
        hint = f"; runs are in folders below it, as {inside.parent}" if inside else ""
        raise UsageError(f"{folder}: no run folder: it has no rank0.jsonl{hint}")
    return Run(folder, sorted(ranks, key=lambda rank: rank.rank), exits)


def write_exits(folder: Path, exits: dict[int, str]) -> None:
    """Keep how the processes of a run ended, beside its records; nothing when all records say it themselves."""
    if any(exits.values()):
        # On a full disk the records say less, and that they end early.
        with contextlib.suppress(OSError):
            (folder / EXITS).write_text(json.dumps({str(rank): how for rank, how in exits.items()}), encoding="ascii")


def _read_exits(path: Path) -> dict[int, str]:
    try:
        found = json.loads(path.read_bytes()[:MAX_LINE_BYTES])
        return {int(rank): str(how) for rank, how in found.items()}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}


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


def _shown(tail: str) -> str:
    return f"; its last output: {tail}" if tail else ""


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 20_000))
            lines = file.read().decode("utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    told = [line.strip() for line in lines if line.strip() and "frame #" not in line]
    return " | ".join(told[-LOG_LINES:])[-1500:]
