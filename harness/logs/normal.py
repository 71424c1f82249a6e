"""The one form into which every log is read: runs, each with series of numbers that know their lines."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from harness.logs.events import Skip


class Point(NamedTuple):
    """One number of a log."""

    line: int
    value: float
    step: float | None
    epoch: float | None
    order: int
    """Position among the rows of the log: numbers of one row share it."""


@dataclass(frozen=True)
class Series:
    """One measured thing over a run, in the order of the log."""

    name: str
    """The normal name."""
    key: str
    """What the program calls it."""
    points: list[Point]
    more_is_better: bool = False
    tabled: bool = False
    """Whether it comes from a table, in which ``nan`` may stand for an empty cell."""

    @cached_property
    def finite(self) -> list[Point]:
        """The points with a finite value."""
        return [point for point in self.points if math.isfinite(point.value)]

    @cached_property
    def values(self) -> list[float]:
        """The finite values."""
        return [point.value for point in self.finite]


EMPTY = Series("", "", [])


@dataclass(frozen=True)
class LoggedRun:
    """One run of a log."""

    file: str
    series: dict[str, Series] = field(default_factory=dict)
    """loss, val_loss, train_metric, val_metric, grad_norm, loss_scale, skipped, lr, step_time_s, data_time_s, ..."""
    parts: dict[str, Series] = field(default_factory=dict)
    """Parts of the loss, and losses of several players."""
    skips: list[Skip] = field(default_factory=list)
    traits: frozenset[str] = frozenset()
    """``rivals``, ``rl``, ``contrastive``: trainings whose losses mean something else."""
    number: str = ""
    """``run 2 of 3`` where the log holds several."""

    def get(self, name: str) -> Series:
        """Return a series, empty when the log has none."""
        return self.series.get(name, EMPTY)

    def source(self, line: int) -> str:
        """Return where a number was read."""
        return f"{self.file}:{line}"


@dataclass(frozen=True)
class Log:
    """What a file holds."""

    file: str
    runs: list[LoggedRun]
    num_lines: int
    num_unused: int
    """Lines from which no number could be taken."""
    unused: list[tuple[int, str]]
    """The first few of them: line number and text."""


def where(point: Point) -> str:
    """Return a point as a reader finds it: the step or the epoch, and the line."""
    step = (
        f"step {point.step:g}"
        if point.step is not None
        else f"epoch {point.epoch:g}"
        if point.epoch is not None
        else ""
    )
    return f"{step}, line {point.line}" if step else f"line {point.line}"
