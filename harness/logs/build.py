"""How do rows become runs? Columns collect the numbers; a step or epoch that falls back to the start is a new run."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import median

from harness.logs.clocks import seconds_of
from harness.logs.columns import Column, ColumnId, chosen, parts
from harness.logs.counters import Counters
from harness.logs.events import Skip
from harness.logs.names import CONTRASTIVE_WORDS, RIVAL_WORDS, RL_WORDS, Meaning, meaning_of, words_of
from harness.logs.normal import LoggedRun, Point, Series
from harness.logs.pairs import MEAN, Pair, Row

MAX_COLUMNS = 400
"""Columns, skipped steps and runs that are kept of one file: whatever it holds, memory stays bounded."""

MAX_SKIPS = 10_000
MAX_RUNS = 50

SEEN_ROWS = 3
"""Rows that must hold a telling word before it says what kind of training this is."""

LOSSES = {"loss", "part", "unnamed"}


class Builder:
    """Collects the rows of one file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.columns: dict[ColumnId, Column] = {}
        self.skips: list[Skip] = []
        self.starts = [0]
        self.order = 0
        self.words: Counter[str] = Counter()
        self.pending: dict[ColumnId, Point] = {}
        self.slots: dict[tuple[str, str, str, bool], Column | None] = {}
        self.counters = Counters()
        self.trained: ColumnId | None = None

    def add(self, row: Row) -> bool:
        """Take the numbers of a row; False when there are none."""
        taken = _taken(row)
        if row.others and len(row.others) < 200:
            self._hear(row.others)
        self.counters.see(taken.step, taken.epoch)
        if taken.trains and self.counters.restarted() and len(self.starts) < MAX_RUNS:
            self.starts.append(self.order)
        partial = row.split == "val" and row.batch is not None
        if self.pending and not partial:
            self._flush()
        for pair, meaning in taken.measured:
            self._put(row, pair, meaning, partial)
        if taken.trains and row.stamp and (seconds := seconds_of(row.stamp)) is not None:
            self._put(row, Pair("stamp", seconds, "train"), STAMP, False)
        self.order += 1
        return bool(taken.measured) or taken.step is not None or taken.epoch is not None

    def _hear(self, keys: list[str]) -> None:
        """Remember words that tell of a special kind of training."""
        for key in keys:
            for word in _telling_words(key):
                self.words[word] += 1

    def lost(self, line: int) -> None:
        """Take a line that says in words that the loss is lost; among too few, it is a text that speaks of one."""
        column = self.columns.get(self.trained) if self.trained else None
        if column and column.seen >= SEEN_ROWS:
            column.add(Point(line, math.nan, self.counters.step, self.counters.epoch, self.order))
            self.order += 1

    def skip(self, skip: Skip) -> None:
        """Take a skipped step that is told in words."""
        self.order += 1
        if len(self.skips) < MAX_SKIPS:
            self.skips.append(skip)

    def runs(self) -> list[LoggedRun]:
        """Return the runs of the file, those without any number left out."""
        self._flush()
        bounds = self._bounds()
        runs = []
        for index, (first, end) in enumerate(bounds):
            number = f"run {index + 1} of {len(bounds)}" if len(bounds) > 1 else ""
            columns = [_cut(column, first, end) for column in self.columns.values()]
            for name, mine in _by_run([column for column in columns if column.points]).items():
                runs.append(self._run(mine, (first, end), name or number))
        return [run for run in runs if run.series or run.skips or run.parts]

    def _bounds(self) -> list[tuple[int, int]]:
        """Return where runs begin and end; one whose loss goes on where the one before ended is the same run.

        Counters begin anew in each epoch that has no number, when a training is resumed, and in each of its phases.
        """
        losses = [c for c in self.columns.values() if c.id.meaning.name in LOSSES and c.id.split != "val"]
        longest = max(losses, key=lambda column: column.seen, default=None)
        points = longest.kept() if longest and not longest.id.mean else []
        bounds: list[tuple[int, int]] = []
        for first, end in pairwise([*self.starts, self.order]):
            start = bounds[-1][0] if bounds else first
            before = [point.value for point in points if start <= point.order < first]
            after = [point.value for point in points if first <= point.order < end]
            if bounds and _goes_on(before, after):
                bounds[-1] = (start, end)
            else:
                bounds.append((first, end))
        return bounds

    def _put(self, row: Row, pair: Pair, meaning: Meaning, partial: bool) -> None:
        slot = (pair.key, pair.split, row.split, partial)
        column = self.slots[slot] if slot in self.slots else self._opened(slot, meaning, row)
        if column is None:
            return
        identity = column.id
        point = Point(row.line, pair.value, self.counters.step, self.counters.epoch, self.order)
        if identity.split == "val":
            if partial and pair.key.endswith(MEAN):  # the mean so far tells more of an evaluation than its last batch
                self.pending.pop(identity, None)
            if partial:
                self.pending[identity] = point
            elif not _is_repeated(column.last, point, row):
                column.add(point)
            return
        if meaning.name in LOSSES and not identity.mean:
            self.trained = identity
        column.add(point)

    def _opened(self, slot: tuple[str, str, str, bool], meaning: Meaning, row: Row) -> Column | None:
        """Return the column of a name as it stands in a line; None when there are too many."""
        written, split, of_row, partial = slot
        key = written.removesuffix(MEAN)
        identity = ColumnId(meaning, split or meaning.split or of_row, key, key != written and not partial)
        if identity not in self.columns and len(self.columns) < MAX_COLUMNS:
            self.columns[identity] = Column(identity, row.table)
        column = self.slots[slot] = self.columns.get(identity)
        return column

    def _flush(self) -> None:
        for identity, point in self.pending.items():
            self.columns[identity].add(point)
        self.pending.clear()

    def _run(self, columns: list[Column], bounds: tuple[int, int], number: str) -> LoggedRun:
        series = {name: _cleaned(found) for name, found in chosen(columns).items()}
        return LoggedRun(
            file=self.file,
            series=series,
            parts=parts(columns),
            skips=[skip for skip in self.skips if bounds[0] <= skip.order < bounds[1]],
            traits=self._traits(columns),
            number=number,
        )

    def _traits(self, columns: list[Column]) -> frozenset[str]:
        rivals = {c.id.key for c in columns if c.id.meaning.name == "part" and RIVAL_WORDS & set(words_of(c.id.key))}
        named = {word for column in columns for word in words_of(column.id.key) if len(column.points) >= SEEN_ROWS}
        named |= {word for word, count in self.words.items() if count >= SEEN_ROWS}
        traits = {"rivals"} if len(rivals) > 1 else set()
        traits |= {"rl"} if RL_WORDS & named else set()
        traits |= {"contrastive"} if CONTRASTIVE_WORDS & named else set()
        return frozenset(traits)


TELLING = RL_WORDS | CONTRASTIVE_WORDS
STAMP = Meaning("stamp", "train")


@lru_cache(maxsize=4096)
def _telling_words(key: str) -> tuple[str, ...]:
    """Return the words of a key that tell of a special kind of training."""
    return tuple({*words_of(key)[-3:]} & TELLING)


@dataclass
class _Taken:
    """The numbers of a row whose meaning is known, the first of each name, and its counters."""

    measured: list[tuple[Pair, Meaning]]
    step: float | None = None
    epoch: float | None = None
    trains: bool = False
    """Whether a loss of training is among them."""


def _taken(row: Row) -> _Taken:
    seen: set[tuple[str, str]] = set()
    taken = _Taken([])
    ranks: dict[str, float] = {"step": math.inf, "epoch": math.inf}
    for pair in row.pairs:
        meaning = meaning_of(pair.key)
        name = meaning.name
        if not name or (pair.key, pair.split) in seen:
            continue
        seen.add((pair.key, pair.split))
        if name not in ranks:
            taken.measured.append((pair, meaning))
            taken.trains |= name in LOSSES and (pair.split or meaning.split or row.split) != "val"
        elif meaning.rank < ranks[name] and math.isfinite(pair.value):  # of several counters the best named
            ranks[name] = meaning.rank
            taken.step, taken.epoch = (pair.value, taken.epoch) if name == "step" else (taken.step, pair.value)
    return taken


def _is_repeated(last: Point | None, point: Point, row: Row) -> bool:
    """Whether a bar shows the last evaluation once more: it does so in each of its states, until it is full."""
    if not row.batch or not last or last.value != point.value:
        return False
    return row.batch[0] < row.batch[1] or last.epoch == point.epoch


def _goes_on(before: list[float], after: list[float]) -> bool:
    """Whether losses begin nearer to where those before them ended than to where those began."""
    if not before or not after or not math.isfinite(before[-1]):
        return False
    few = min(5, len(before) // 4 + 1)
    start, end, begins = median(before[:few]), median(before[-few:]), median(after[: min(few, len(after) // 4 + 1)])
    return abs(begins - end) < abs(begins - start)


def _by_run(columns: list[Column]) -> dict[str, list[Column]]:
    """Return the columns by the run that their names begin with, as a table of several runs has them."""
    named = {c.id.key.rpartition(" - ")[0] for c in columns if c.id.meaning.name == "loss" and c.tabled} - {""}
    if len(named) < 2:
        return {"": columns}
    return {name: [c for c in columns if c.id.key.rpartition(" - ")[0] in {name, ""}] for name in sorted(named)}


def _cut(column: Column, first: int, end: int) -> Column:
    points = [point for point in column.kept() if first <= point.order < end]
    return Column(column.id, column.tabled, points, last=points[-1] if points else None)


def _cleaned(series: Series) -> Series:
    """Drop the ``nan`` of empty cells: those of a table behind which numbers follow again."""
    if not series.tabled or not series.finite:
        return series
    last = series.finite[-1].order
    kept = [point for point in series.points if math.isfinite(point.value) or point.order > last]
    if any(math.isinf(point.value) for point in series.points):
        return series
    gaps = len(series.points) - len(kept)
    trailing = sum(math.isnan(point.value) for point in kept)
    if gaps and trailing <= max(_gap(series), 1):  # a sparse column ends as it was: between two of its numbers
        kept = [point for point in kept if math.isfinite(point.value)]
    return Series(series.name, series.key, kept, series.more_is_better, series.tabled)


def _gap(series: Series) -> int:
    """Return the longest stretch of nan between two numbers."""
    longest = current = 0
    for point in series.points:
        current = current + 1 if math.isnan(point.value) else 0
        if point.order < series.finite[-1].order:
            longest = max(longest, current)
    return longest
