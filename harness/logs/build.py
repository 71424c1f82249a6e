"""How do rows become runs? Columns collect the numbers; a step or epoch that falls back to the start is a new run."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter

from harness.logs.columns import Column, ColumnId, chosen, parts
from harness.logs.events import Skip
from harness.logs.names import CONTRASTIVE_WORDS, RIVAL_WORDS, RL_WORDS, Meaning, meaning_of, words_of
from harness.logs.normal import LoggedRun, Point, Series
from harness.logs.pairs import MEAN, Pair, Row

MAX_COLUMNS = 400
MAX_SKIPS = 10_000
MAX_RUNS = 50
SEEN_ROWS = 3
"""Rows that must hold a telling word before it says what kind of training this is."""

ADVANCES = 5
"""Steps that a run must have advanced before a step at its start begins another: ranks print in disorder."""

COUNTER_NAMES = {"step", "epoch"}


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
        self.counters = _Counters()
        self.trained: ColumnId | None = None

    def add(self, row: Row) -> bool:
        """Take the numbers of a row; False when there are none."""
        first = {(pair.key, pair.split): pair for pair in reversed(row.pairs)}  # the first of a key that is repeated
        measured = [(pair, meaning_of(pair.key)) for pair in reversed(first.values()) if meaning_of(pair.key).name]
        if row.others and len(row.others) < 200:
            self.words.update({word for key in row.others for word in words_of(key)[-3:]} & TELLING)
        step, epoch = _lowest("step", measured), _lowest("epoch", measured)
        trains = any(m.name in {"loss", "part"} and (p.split or m.split or row.split) != "val" for p, m in measured)
        self.counters.see(step, epoch)
        if trains and self.counters.restarted() and len(self.starts) < MAX_RUNS:
            self.starts.append(self.order)
        partial = row.split == "val" and row.batch is not None
        if not partial:
            self._flush()
        for pair, meaning in measured:
            if meaning.name not in COUNTER_NAMES:
                self._put(row, pair, meaning, partial)
        self.order += 1
        return bool(measured)

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
        runs = [self._run(index) for index in range(len(self.starts))]
        return [run for run in runs if run.series or run.skips or run.parts]

    def _put(self, row: Row, pair: Pair, meaning: Meaning, partial: bool) -> None:
        mean = pair.key.endswith(MEAN)
        key = pair.key.removesuffix(MEAN)
        identity = ColumnId(meaning, pair.split or meaning.split or row.split, key, mean and not partial)
        if meaning.name in {"loss", "part"} and identity.split != "val" and not mean:
            self.trained = identity
        if partial and mean:  # the mean so far tells more of an evaluation than its last batch
            self.pending.pop(identity, None)
        point = Point(row.line, pair.value, self.counters.step, self.counters.epoch, self.order)
        if identity not in self.columns and len(self.columns) >= MAX_COLUMNS:
            return
        column = self.columns.setdefault(identity, Column(identity, row.table))
        if partial:
            self.pending[identity] = point
        elif not (identity.split == "val" and row.batch and column.last and column.last.value == pair.value):
            column.add(point)  # a bar repeats the last evaluation in each of its states

    def _flush(self) -> None:
        for identity, point in self.pending.items():
            self.columns[identity].add(point)
        self.pending.clear()

    def _run(self, index: int) -> LoggedRun:
        number = f"run {index + 1} of {len(self.starts)}" if len(self.starts) > 1 else ""
        first, end = self.starts[index], [*self.starts, self.order][index + 1]
        columns = [_cut(column, first, end) for column in self.columns.values()]
        columns = [column for column in columns if column.points]
        series = {name: _cleaned(found) for name, found in chosen(columns).items()}
        return LoggedRun(
            file=self.file,
            series=series,
            parts=parts(columns),
            skips=[skip for skip in self.skips if bisect_right(self.starts, skip.order) - 1 == index],
            traits=self._traits(columns),
            number=number,
            num_rows=end - first,
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


class _Counters:
    """The step and the epoch that hold now, and whether they fell back to the start."""

    def __init__(self) -> None:
        self.step: float | None = None
        self.epoch: float | None = None
        self.first_step = self.first_epoch = math.inf
        self.max_step = self.max_epoch = -math.inf
        self.advances = 0

    def see(self, step: float | None, epoch: float | None) -> None:
        if epoch is not None:
            self.epoch = epoch
        if step is not None:
            self.step = step

    def restarted(self) -> bool:
        """Take the counters of a row of training; True when they are those of a new run."""
        step, epoch = self.step, self.epoch
        fell = epoch is not None and epoch <= self.first_epoch and self.max_epoch > self.first_epoch
        if epoch is None and step is not None:
            fell = step <= self.first_step and self.advances >= ADVANCES
        if fell:
            self.first_step = self.first_epoch = math.inf
            self.max_step = self.max_epoch = -math.inf
            self.advances = 0
        if epoch is not None:
            self.first_epoch, self.max_epoch = min(self.first_epoch, epoch), max(self.max_epoch, epoch)
        if step is not None:
            self.advances += self.max_step < step
            self.first_step, self.max_step = min(self.first_step, step), max(self.max_step, step)
        return fell


def _lowest(name: str, measured: list[tuple[Pair, Meaning]]) -> float | None:
    found = [
        (meaning.rank, pair.value) for pair, meaning in measured if meaning.name == name and math.isfinite(pair.value)
    ]
    return min(found, key=lambda item: item[0])[1] if found else None


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
