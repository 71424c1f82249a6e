"""Are sets of intervals united, cut and subtracted as counting point by point says?"""

from __future__ import annotations

import numpy as np
import pytest

from harness.trace.intervals import Intervals, both, gaps, minus, union, within

POINTS = 60


def made(seed: int, count: int) -> tuple[Intervals, set[int]]:
    """Return random intervals between whole points, some empty or nested, and the unit cells that they cover."""
    random = np.random.default_rng(seed)
    start = random.integers(0, POINTS, count).astype(float)
    end = np.minimum(start + random.integers(0, 9, count), POINTS)
    cells = {cell for a, b in zip(start, end, strict=True) for cell in range(int(a), int(b))}
    return union(start, end), cells


def cells(intervals: Intervals) -> set[int]:
    """Return the unit cells that disjoint intervals cover; they are in ascending order."""
    assert (intervals.start[1:] >= intervals.end[:-1]).all()
    return {cell for a, b in zip(*intervals, strict=True) for cell in range(int(a), int(b))}


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize(("few", "many"), [(0, 5), (1, 9), (12, 3)])
def test_against_counting(seed: int, few: int, many: int) -> None:
    """Union, intersection, difference, gaps and length."""
    (one, mine), (other, theirs) = made(seed, few), made(seed + 1000, many)
    assert cells(one) == mine
    assert cells(both(one, other)) == mine & theirs
    assert cells(minus(one, other)) == mine - theirs
    assert cells(gaps(one, 10, 50)) == set(range(10, 50)) - mine
    assert cells(within(one, 10, 50)) == mine & set(range(10, 50))
    assert one.length == len(mine)
