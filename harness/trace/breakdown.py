"""Where does the time of a device go? A partition of its window: work by kind, and idle time by what the host does."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from harness.trace.intervals import Intervals, both, gaps, minus, union, within
from harness.trace.kernels import is_communication, is_matrix, units_of
from harness.trace.normal import COPY, KERNEL, DeviceWork, Ids, Trace
from harness.trace.window import Window, launches, window_of

ALLOCATOR = re.compile(
    r"(cuda|hip)(Malloc|Free)(?!.*Async)|cuMem(Create|Map|Unmap|Release|AddressReserve)", re.IGNORECASE
)

SYNC = re.compile(r"(cuda|hip)(Device|Stream|Event)Synchronize|cu(Ctx|Stream|Event)Synchronize", re.IGNORECASE)

IDLE = ("input", "host", "allocator", "sync", "unattributed")


@dataclass(frozen=True)
class KernelTime:
    """The kernels of one name within the window."""

    name: str
    count: int
    total_us: float


@dataclass(frozen=True)
class Breakdown:
    """Shares of the window, 0 to 1; compute, communication, copies and the idle ones add up to 1."""

    window: Window
    compute: float
    exposed_communication: float
    """Communication while no compute runs."""
    exposed_copy: float
    """Copies while neither runs."""
    idle: dict[str, float]
    """Time without device work: the host waits for input, works, allocates or synchronises; or nobody knows."""
    communication: float
    """All communication, hidden or not."""
    communication_overlap: float | None
    """The part of it that compute hides, 0 to 1; None without communication."""
    units: dict[str, float]
    """Of the time of matrix products: shares by units of the chip; all 0 without products."""
    matrix: float
    """Matrix products / the sum over all kernels."""
    top: list[KernelTime]
    recorded: float
    """Launches that have a kernel record, 0 to 1."""
    kernel_us: float
    """Median length of a kernel in microseconds."""


TOP = 10
"""Kernels told."""


def busiest(trace: Trace) -> Trace:
    """Return the trace with the work of one device, that with most: work of the others would hide its idle time."""
    work = trace.work
    devices, places = np.unique(work.device, return_inverse=True)
    if len(devices) < 2:
        return trace
    times = np.bincount(places, weights=(work.end - work.start) * (work.kind == KERNEL))
    mine = places == int(times.argmax())
    return replace(trace, work=DeviceWork(*(column[mine] for column in vars(work).values())))


def break_down(trace: Trace) -> Breakdown:
    """Return the partition of a trace of one device."""
    window = window_of(trace)
    work, kinds = trace.work, np.array([is_communication(name) for name in trace.names], dtype=bool)
    is_kernel, is_copy = work.kind == KERNEL, work.kind == COPY
    talks = is_kernel & kinds[work.name]

    def covered(which: Ids) -> Intervals:
        return within(union(work.start[which], work.end[which]), window.start, window.end)

    compute, talk, copies = covered(~talks & ~is_copy), covered(talks), covered(is_copy)
    hidden = both(talk, compute).length
    busy = covered(np.ones(len(work.start), dtype=bool))
    idle = _idle(trace, window, gaps(busy, window.start, window.end))
    exposed_talk = minus(talk, compute)
    exposed_copy = minus(
        copies, union(np.concatenate((compute.start, talk.start)), np.concatenate((compute.end, talk.end)))
    )
    inside = is_kernel & (work.end > window.start) & (work.start < window.end)
    units, matrix = _units(trace, inside & ~talks)
    lengths = (work.end - work.start)[inside]
    return Breakdown(
        window=window,
        compute=compute.length / window.length,
        exposed_communication=exposed_talk.length / window.length,
        exposed_copy=exposed_copy.length / window.length,
        idle={name: time / window.length for name, time in idle.items()},
        communication=talk.length / window.length,
        communication_overlap=hidden / talk.length if talk.length else None,
        units=units,
        matrix=matrix,
        top=_top(trace, inside),
        recorded=_recorded(trace),
        kernel_us=float(np.median(lengths)) if len(lengths) else 0.0,
    )


def _idle(trace: Trace, window: Window, idle: Intervals) -> dict[str, float]:
    """Split the time without device work by what the host does meanwhile."""
    left = idle
    told: dict[str, float] = {}
    calls = trace.calls

    def named(pattern: re.Pattern[str]) -> Intervals:
        which = np.array([bool(pattern.search(name)) for name in trace.names], dtype=bool)[calls.name]
        return union(calls.start[which], calls.end[which])

    causes: list[tuple[str, Callable[[], Intervals]]] = [
        ("input", lambda: union(trace.loading.start, trace.loading.end)),
        ("allocator", lambda: named(ALLOCATOR)),
        ("sync", lambda: named(SYNC)),
        ("host", lambda: _starved(trace, window, idle)),
        (
            "host",
            lambda: union(np.concatenate((trace.busy.start, calls.start)), np.concatenate((trace.busy.end, calls.end))),
        ),
    ]
    for name, cause in causes:
        intervals = cause()
        told[name] = told.get(name, 0.0) + both(left, intervals).length
        left = minus(left, intervals)
    return {name: told.get(name, left.length if name == "unattributed" else 0.0) for name in IDLE}


def _starved(trace: Trace, window: Window, idle: Intervals) -> Intervals:
    """Return the gaps that end with work which was launched after they began: the device had nothing to do before.

    What follows the last work of the window waits for the host too.
    """
    work = trace.work
    following = np.searchsorted(work.start, idle.end - EDGE_US)
    launched = np.append(launches(work, trace.calls), window.end)[np.minimum(following, len(work.start))]
    starved = launched >= idle.start
    return Intervals(idle.start[starved], idle.end[starved])


EDGE_US = 0.01
"""Rounding of times."""


def _units(trace: Trace, which: Ids) -> tuple[dict[str, float], float]:
    work = trace.work
    times = np.bincount(work.name[which], weights=(work.end - work.start)[which], minlength=len(trace.names))
    shares = {"half": 0.0, "tf32": 0.0, "simt": 0.0, "unknown": 0.0}
    for place, time in enumerate(times):
        if time > 0 and is_matrix(trace.names[place]):
            shares[units_of(trace.names[place])] += float(time)
    total = sum(shares.values())
    return {unit: time / total if total else 0.0 for unit, time in shares.items()}, total / max(times.sum(), 1e-9)


def _top(trace: Trace, which: Ids) -> list[KernelTime]:
    work = trace.work
    times = np.bincount(work.name[which], weights=(work.end - work.start)[which], minlength=len(trace.names))
    counts = np.bincount(work.name[which], minlength=len(trace.names))
    order = np.argsort(-times)[:TOP]
    return [KernelTime(trace.names[at], int(counts[at]), float(times[at])) for at in order if counts[at]]


LAUNCH = re.compile(r"(cuda|hip|cu)(Ext)?(Module)?Launch(Cooperative)?Kernel", re.IGNORECASE)


def _recorded(trace: Trace) -> float:
    """Return the share of launches whose kernel was recorded; 1 without launches."""
    calls = trace.calls
    which = np.array([bool(LAUNCH.search(name)) for name in trace.names], dtype=bool)[calls.name]
    launched = calls.correlation[which]
    return float(np.isin(launched, trace.work.correlation).mean()) if len(launched) else 1.0
