"""Which column of a log is the loss, the validation metric, the step time? Programs print several of each."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from harness.logs.clocks import as_intervals
from harness.logs.names import MEASURES, Meaning
from harness.logs.normal import Point, Series

MAX_POINTS = 20_000
"""Points that a column keeps; of more, every second one is dropped again and again: 1.5 MB a column at most."""

ENOUGH = 0.5
"""Share of the points of the longest column from which a better name wins."""


OF_TRAINING = tuple(MEASURES)
"""What is taken from training alone; of evaluations, only losses and metrics are."""


class ColumnId(NamedTuple):
    """What makes a column."""

    meaning: Meaning
    split: str
    key: str
    mean: bool


@dataclass
class Column:
    """The numbers of one key, thinned when they are many."""

    id: ColumnId
    tabled: bool = False
    points: list[Point] = field(default_factory=list)
    stride: int = 1
    seen: int = 0
    last: Point | None = None

    def add(self, point: Point) -> None:
        """Keep a point; the last one is always kept."""
        if self.seen % self.stride == 0:
            self.points.append(point)
        self.last = point
        self.seen += 1
        if len(self.points) > MAX_POINTS:
            self.points, self.stride = self.points[::2], self.stride * 2

    def kept(self) -> list[Point]:
        """Return the points that were kept, the last one included."""
        ended = self.last is None or (self.points and self.points[-1] is self.last)
        return self.points if ended else [*self.points, self.last]  # type: ignore[list-item]

    def series(self, name: str) -> Series:
        """Return the column as a series."""
        return Series(name, self.id.key, self.kept(), self.id.meaning.more_is_better, self.tabled)


def chosen(columns: Iterable[Column]) -> dict[str, Series]:
    """Return one series for each normal name."""
    every = list(columns)
    found: dict[str, Series] = {}
    for name, split, into in (("loss", "val", "val_loss"), *((name, "train", name) for name in OF_TRAINING)):
        fitting = [c for c in every if c.id.meaning.name == name and (c.id.split or "train") == split and not c.id.mean]
        best = _best(fitting)
        if best:
            found[into] = best.series(into)
    for split, into in (("train", "loss"), ("val", "val_loss")):
        if into not in found:
            total = _sum_of_parts(
                [c for c in every if c.id.meaning.name == "part" and (c.id.split or "train") == split]
            )
            found |= {into: replace(total, name=into)} if total else {}
    return _clocks(found) | _metrics(every, found) | _means(every, found)


def parts(columns: Iterable[Column]) -> dict[str, Series]:
    """Return the parts of the loss, by their keys."""
    return {c.id.key: c.series("part") for c in columns if c.id.meaning.name == "part" and not c.id.mean}


def _best(columns: list[Column]) -> Column | None:
    longest = max((len(column.points) for column in columns), default=0)
    return min(
        (column for column in columns if len(column.points) >= ENOUGH * longest),
        key=lambda column: (column.id.meaning.rank, -len(column.points)),
        default=None,
    )


def _sum_of_parts(columns: list[Column]) -> Series | None:
    """Return the sum of the parts of the loss where a log has no total: those that the most rows have."""
    columns = [column for column in columns if not column.id.mean]
    longest = max((len(column.points) for column in columns), default=0)
    columns = [column for column in columns if len(column.points) >= 0.9 * longest]
    if not columns:
        return None
    by_row = [{point.order: point for point in column.points} for column in columns]
    shared = [order for order in by_row[0] if all(order in rows for rows in by_row)]
    points = [by_row[0][order]._replace(value=math.fsum(rows[order].value for rows in by_row)) for order in shared]
    return Series("loss", " + ".join(column.id.key for column in columns), points, tabled=columns[0].tabled)


def _clocks(found: dict[str, Series]) -> dict[str, Series]:
    """Replace a clock that runs on by the time of each step."""
    named = found.get("step_time_s")
    running = as_intervals(named) if named else None
    if running:
        return found | {"step_time_s": running, "elapsed_s": named or running}
    elapsed = found.get("elapsed_s")
    derived = as_intervals(elapsed) if elapsed and not named else None
    return found | {"step_time_s": derived} if derived else found


def _means(every: list[Column], found: dict[str, Series]) -> dict[str, Series]:
    """Return the means over the epoch of the two times that are compared."""
    means = {}
    for name in ("step_time_s", "data_time_s"):
        fitting = [c for c in every if c.id.meaning.name == name and c.id.mean and (c.id.split or "train") == "train"]
        best = _best([c for c in fitting if name in found and c.id.key.startswith(found[name].key)])
        if best:
            means[f"{name}_mean"] = best.series(f"{name}_mean")
    return means


def _metrics(every: list[Column], found: dict[str, Series]) -> dict[str, Series]:
    """Choose the validation metric, and the training metric of the same name."""
    train_rows = {point.order for point in found["loss"].points} if "loss" in found else set()
    scores = [(column, _split_of(column, train_rows)) for column in every if column.id.meaning.name == "metric"]
    validated = [column for column, split in scores if split == "val" and not column.id.mean]
    trained = [column for column, split in scores if split == "train" and not column.id.mean]
    best = _best(validated)
    same = [c for c in trained if best is None or c.id.meaning.label == best.id.meaning.label]
    chosen_ones = {"val_metric": best, "train_metric": _best(same)}
    return {name: column.series(name) for name, column in chosen_ones.items() if column}


def _split_of(column: Column, train_rows: set[int]) -> str:
    """A score without a split that stands beside the training loss is of training."""
    if column.id.split:
        return column.id.split
    beside = sum(point.order in train_rows for point in column.points)
    return "train" if beside > len(column.points) / 2 else "val"
