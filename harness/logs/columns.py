"""Which column of a log is the loss, the validation metric, the step time? Programs print several of each."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from harness.logs.clocks import as_intervals, stamped_intervals
from harness.logs.curves import smoothed, width_of
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


FELL = 0.1
"""Share of its first value by which an unnamed scalar must fall to be taken for a loss: an accuracy rises."""


def chosen(columns: Iterable[Column]) -> dict[str, Series]:
    """Return one series for each normal name."""
    every = list(columns)
    found: dict[str, Series] = {}
    for name, split, into in (("loss", "val", "val_loss"), *((name, "train", name) for name in OF_TRAINING)):
        fitting = [c for c in every if c.id.meaning.name == name and (c.id.split or "train") == split and not c.id.mean]
        best = _best(fitting)
        if best:
            found[into] = _as_loss(best.series(into)) if "loss" in into else best.series(into)
    for split, into in (("train", "loss"), ("val", "val_loss")):
        total = None if into in found else _total(every, split)
        found |= {into: replace(total, name=into)} if total else {}
    if "loss" not in found:
        found |= _errors(every) or _unnamed(every)
    return _clocks(found, every) | _metrics(every, found) | _means(every, found)


def _as_loss(series: Series) -> Series:
    """Return what is to fall: an ELBO is to rise, and its negative is the loss."""
    values = series.values
    if not series.more_is_better or not values or values[-1] <= values[0]:
        return replace(series, more_is_better=False)
    points = [point._replace(value=-point.value) for point in series.points]
    return replace(series, key=f"-{series.key}", points=points, more_is_better=False)


def _errors(every: list[Column]) -> dict[str, Series]:
    """Take an error that is printed of training for the loss where no loss is printed: RMSE, WER, perplexity."""
    errors = [c for c in every if c.id.meaning.name == "metric" and not c.id.meaning.more_is_better and not c.id.mean]
    train = _best([column for column in errors if column.id.split == "train"])
    if not train:
        return {}
    same = [c for c in errors if c.id.split == "val" and c.id.meaning.label == train.id.meaning.label]
    val = _best(same)
    return {"loss": train.series("loss")} | ({"val_loss": val.series("val_loss")} if val else {})


def _unnamed(every: list[Column]) -> dict[str, Series]:
    """Take a scalar without a name for a loss when it falls at first, or is lost: nothing else is told of it."""
    columns = [column for column in every if column.id.meaning.name == "unnamed"]
    if len(columns) != 1:
        return {}
    series = columns[0].series("loss")
    values = series.values
    curve = smoothed(values, width_of(values))
    fell = bool(curve) and curve[0] > 0 and min(curve) < (1 - FELL) * curve[0] and curve.index(min(curve)) > 2
    lost = len(series.points) > len(values) > 0
    return {"loss": series} if fell or lost else {"unnamed": series}


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


def _total(every: list[Column], split: str) -> Series | None:
    """Return what stands for a loss that has no total: the sum of its parts, or the mean over validation sets."""
    fitting = [c for c in every if c.id.meaning.name == "part" and (c.id.split or "train") == split and not c.id.mean]
    longest = max((len(column.points) for column in fitting), default=0)
    fitting = [column for column in fitting if len(column.points) >= 0.9 * longest]
    if not fitting:
        return None
    labels = {c.id.meaning.label for c in every if c.id.meaning.name == "part" and (c.id.split or "train") == "train"}
    has_total = any(c.id.meaning.name == "loss" and (c.id.split or "train") == "train" for c in every)
    sets = split == "val" and has_total and not labels & {column.id.meaning.label for column in fitting}
    by_row = [{point.order: point for point in column.points} for column in fitting]
    shared = [order for order in by_row[0] if all(order in rows for rows in by_row)]
    if not shared:  # each has rows of its own
        return fitting[0].series("loss")
    share = 1 / len(by_row) if sets else 1.0
    points = [by_row[0][o]._replace(value=share * math.fsum(rows[o].value for rows in by_row)) for o in shared]
    key = " + ".join(column.id.key for column in fitting)
    return Series("loss", f"mean of {key}" if sets and len(fitting) > 1 else key, points, tabled=fitting[0].tabled)


def _clocks(found: dict[str, Series], every: list[Column]) -> dict[str, Series]:
    """Replace a clock that runs on by the time of each step."""
    named = found.get("step_time_s")
    running = as_intervals(named) if named else None
    if running:
        return found | {"step_time_s": running, "elapsed_s": named or running}
    elapsed = None if named else found.get("elapsed_s")
    derived = as_intervals(elapsed) if elapsed else None
    if elapsed and not derived and "second" in elapsed.key.lower():
        derived = replace(elapsed, name="step_time_s")  # seconds that do not run on are those of each step
    if derived:
        return found | {"step_time_s": derived}
    stamps = next((column for column in every if column.id.meaning.name == "stamp"), None)
    timed = named or "throughput" in found or not stamps
    stamped = None if timed or not stamps else stamped_intervals(stamps.series("stamp"))
    return found | {"stamped_step_time_s": stamped} if stamped else found


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
    validates = "val_loss" in found and found["val_loss"].tabled
    named = {c.id.meaning.label for c in every if c.id.meaning.name == "metric" and c.id.split == "val"}
    scores = [
        (c, "val" if validates and not c.id.split and c.id.meaning.label not in named else _split_of(c, train_rows))
        for c in every
        if c.id.meaning.name == "metric"
    ]
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
