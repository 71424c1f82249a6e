"""Is a column of times a clock that runs on, or the time of each step? A clock becomes the time of each step."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from harness.logs.normal import Point, Series

LEAST = 4
"""Points below which a clock cannot be told from a step that gets slower."""

GROWTH = 0.2
"""Median increase, as a share of the first value, from which a column that only grows is a clock: one that counts from
the start grows by about its first value each time (1), a step time that doubles over 20 prints by 0.05."""


def is_running(values: list[float]) -> bool:
    """Whether the values are those of a clock: they never fall, and grow too much to be steps that get slower."""
    if len(values) < LEAST or values[0] < 0:
        return False
    rises = [b - a for a, b in pairwise(values)]
    falls = sum(rise < 0 for rise in rises)
    steady = median(rises) > 0 and falls <= len(rises) // 50
    return steady and (median(rises) >= GROWTH * max(values[0], 1e-12) or values[-1] > 20 * max(values[0], 1e-12))


def as_intervals(series: Series) -> Series | None:
    """Return the time of each step of a running clock; None when it is no such clock."""
    points = series.finite
    if not is_running([point.value for point in points]):
        return None
    pairs = list(pairwise(points))
    times = [_between(a, b) for a, b in pairs if b.value >= a.value]
    return Series("step_time_s", f"{series.key} (differences)", times)


def _between(before: Point, after: Point) -> Point:
    steps = 1.0
    if before.step is not None and after.step is not None and after.step > before.step:
        steps = after.step - before.step
    return after._replace(value=(after.value - before.value) / steps)
