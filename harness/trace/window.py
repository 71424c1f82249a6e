"""Which part of a trace is measured? The profiler's steps, each to the end of the last kernel that it launched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.trace.normal import NO_CORRELATION, DeviceWork, HostCalls, Times, Trace

ENOUGH = 4
"""Steps from which the first one, which warms up, is left out."""


@dataclass(frozen=True)
class Window:
    """A stretch of time, in microseconds, and how it was chosen."""

    start: float
    end: float
    num_steps: int
    """0 when the profiler was told of none, and the window is that of the device work."""

    @property
    def length(self) -> float:
        """Microseconds."""
        return self.end - self.start


def window_of(trace: Trace) -> Window:
    """Return the window; of a trace without steps from the first device work to the last."""
    steps = trace.steps
    if not len(steps.start):
        return Window(float(trace.work.start.min()), float(trace.work.end.max()), 0)
    first = 1 if len(steps.start) >= ENOUGH else 0
    start, end = float(steps.start[first]), float(steps.end[-1])
    launched = launches(trace.work, trace.calls)
    mine = (launched >= start) & (launched < end)
    ends = trace.work.end[mine]
    return Window(start, max(end, float(ends.max())) if len(ends) else end, len(steps.start) - first)


def launches(work: DeviceWork, calls: HostCalls) -> Times:
    """Return when each piece of device work was launched; NaN without a launch record."""
    known = calls.correlation != NO_CORRELATION
    correlation, start = calls.correlation[known], calls.start[known]
    order = np.argsort(correlation, kind="stable")
    correlation, start = correlation[order], start[order]
    found = np.searchsorted(correlation, work.correlation)
    inside = np.minimum(found, max(len(correlation) - 1, 0))
    if not len(correlation):
        return np.full(len(work.start), np.nan)
    return np.where(correlation[inside] == work.correlation, start[inside], np.nan)
