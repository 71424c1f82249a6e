"""What does a noisy curve do? Robust levels, noise and runs of a series; nothing here knows of training."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import TypeVar

T = TypeVar("T")

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


def scatter(values: Sequence[float]) -> float:
    """Return the standard deviation around a line through neighbours: blind to steep trends as well, if less exact."""
    if len(values) < 4:
        return noise(values)
    bends = [abs(a - 2 * b + c) for a, b, c in zip(values, values[1:], values[2:], strict=False)]
    return MAD_TO_SIGMA * median(bends) / 6**0.5


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


def thirds(values: Sequence[T]) -> tuple[Sequence[T], Sequence[T], Sequence[T]]:
    """Return the first, the middle and the last third."""
    cut = len(values) // 3
    return values[:cut], values[cut : len(values) - cut], values[len(values) - cut :]


def trend(values: Sequence[float]) -> float:
    """Return the Mann-Kendall statistic: how many pairs rise more than fall, in its standard deviations without trend.

    At most 500 values are compared; of more, every so many-th.
    """
    kept = values[:: len(values) // 500 + 1]
    count = len(kept)
    if count < 3:
        return 0.0
    rises = sum((b > a) - (b < a) for i, a in enumerate(kept) for b in kept[i + 1 :])
    spread: float = (count * (count - 1) * (2 * count + 5) / 18) ** 0.5
    return rises / spread


def width_of(values: Sequence[float]) -> int:
    """Return the width of a running median that outlives single spikes: 5 % of the curve, 5 to 51 values."""
    return min(51, max(5, len(values) // 20))
