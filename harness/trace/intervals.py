"""How long does one set of intervals last, and how much of it do others cover? Arrays of begins and ends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.trace.normal import Times


class Intervals(NamedTuple):
    """Disjoint intervals in ascending order."""

    start: Times
    end: Times

    @property
    def length(self) -> float:
        """The time that they cover, in the unit of their ends."""
        return float((self.end - self.start).sum())


def union(start: Times, end: Times) -> Intervals:
    """Return the time that any of these intervals covers."""
    if not len(start):
        return Intervals(np.empty(0), np.empty(0))
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    begins = np.concatenate(([True], start[1:] > end[:-1]))
    last = np.concatenate((np.flatnonzero(begins)[1:] - 1, [len(start) - 1]))
    return Intervals(start[begins], end[last])


def within(one: Intervals, low: float, high: float) -> Intervals:
    """Return the part between two points."""
    start, end = np.maximum(one.start, low), np.minimum(one.end, high)
    kept = end > start
    return Intervals(start[kept], end[kept])


def gaps(one: Intervals, low: float, high: float) -> Intervals:
    """Return what is left between two points."""
    inside = within(one, low, high)
    start, end = np.concatenate(([low], inside.end)), np.concatenate((inside.start, [high]))
    kept = end > start
    return Intervals(start[kept], end[kept])


def minus(one: Intervals, other: Intervals) -> Intervals:
    """Return the time that the first covers and the second does not."""
    if not len(one.start):
        return one
    low, high = float(one.start[0]), float(one.end[-1])
    return both(one, gaps(other, low, high))


def both(one: Intervals, other: Intervals) -> Intervals:
    """Return the time that both cover."""
    # For each interval of the first, those of the second from the first that ends after its start on.
    first = np.searchsorted(other.end, one.start, side="right")
    last = np.searchsorted(other.start, one.end, side="left")
    counts = np.maximum(last - first, 0)
    mine = np.repeat(np.arange(len(one.start)), counts)
    ends = np.cumsum(counts)
    theirs = np.arange(counts.sum()) - np.repeat(ends - counts, counts) + np.repeat(first, counts)
    start = np.maximum(one.start[mine], other.start[theirs])
    end = np.minimum(one.end[mine], other.end[theirs])
    return Intervals(start, end)
