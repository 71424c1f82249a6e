"""What does a noisy curve do? Robust levels, noise and runs of a series; nothing here knows of training."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

MAD_TO_SIGMA = 1.4826
"""A normal distribution's standard deviation over its median absolute deviation."""


def smoothed(values: Sequence[float], width: int) -> list[float]:
    """Return the running median; at the ends the window is cut."""
    half = max(width // 2, 1)
    return [median(values[max(0, i - half) : i + half + 1]) for i in range(len(values))]


def noise(values: Sequence[float]) -> float:
    """Return the standard deviation from one value to the next, robust to jumps and blind to slow trends."""
    if len(values) < 3:
        return 0.0
    steps = [abs(b - a) for a, b in pairwise(values)]
    return MAD_TO_SIGMA * median(steps) / 2**0.5


def tail(values: Sequence[float], share: float = 0.1, least: int = 3) -> Sequence[float]:
    """Return the last share of the values, at least so many."""
    return values[-max(least, int(len(values) * share)) :]


def head(values: Sequence[float], share: float = 0.1, least: int = 3) -> Sequence[float]:
    """Return the first share of the values, at least so many."""
    return values[: max(least, int(len(values) * share))]


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def thirds(values: Sequence[float]) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
    """Return the first, the middle and the last third."""
    cut = len(values) // 3
    return values[:cut], values[cut : len(values) - cut], values[len(values) - cut :]


def width_of(values: Sequence[float]) -> int:
    """Return the width of a running median that outlives single spikes: 5 % of the curve, 5 to 51 values."""
    return min(51, max(5, len(values) // 20))
