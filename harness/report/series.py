"""Which points of a series are drawn? At most 200, with its spikes and its gaps kept."""

from __future__ import annotations

import math
from itertools import pairwise

from harness.report.model import Series

MAX_POINTS = 200
"""Origin: a plot is about 350 pixels wide; more points than that change no pixel and only make the page larger."""

LARGEST = 1e30
"""A value beyond this is drawn as not finite: limits around it overflow while the axes are computed."""

_BUCKETS = (MAX_POINTS - 2) // 4


def drawable(value: float | None) -> float | None:
    """Return the value when it can be drawn, otherwise None."""
    return value if value is not None and math.isfinite(value) and abs(value) <= LARGEST else None


def thin(series: Series) -> Series:
    """Return at most ``MAX_POINTS`` points: each bucket's lowest, highest, first gap and the point before the gap."""
    points = [(step, drawable(value)) for step, value in series]
    if len(points) <= MAX_POINTS:
        return points
    size = math.ceil(len(points) / _BUCKETS)
    kept = {0, len(points) - 1}
    for start in range(0, len(points), size):
        kept |= _telling(points, start, min(start + size, len(points)))
    return [points[index] for index in sorted(kept)]


def _telling(points: Series, start: int, stop: int) -> set[int]:
    finite = {index: value for index in range(start, stop) if (value := points[index][1]) is not None}
    kept = {min(finite, key=finite.__getitem__), max(finite, key=finite.__getitem__)} if finite else set()
    gap = next((index for index in range(start, stop) if points[index][1] is None), None)
    return kept if gap is None else kept | {gap, max(gap - 1, 0)}


def last_before_gaps(points: Series) -> list[tuple[int, float]]:
    """Return every finite point that a not-finite one follows."""
    pairs = pairwise(points)
    return [(step, value) for (step, value), (_, after) in pairs if value is not None and after is None]


def values(points: Series) -> list[float]:
    """Return the values that can be drawn."""
    return [value for _, value in points if value is not None]


def ending(points: Series) -> str:
    """Return in words how a series ends: the last step, and whether its value was finite."""
    step, value = points[-1]
    if not values(points):
        return "no finite value"
    return f"not finite at step {step}" if value is None else f"{value:.4g} at step {step}"
