"""May this trace be judged at all? The reasons against it, each with what would help."""

from __future__ import annotations

import numpy as np

from harness.diagnose.finding import Missing
from harness.trace.breakdown import Breakdown
from harness.trace.normal import KERNEL, NO_CORRELATION, Trace

RECORDED = 0.9
"""Least share of launches with a kernel record; profilers drop records when their buffers are full."""

UNATTRIBUTED = 0.2
"""Largest share of the window that nobody knows the reason of."""

APART = 50.0
"""Mean distance of neighbouring correlation ids from which most calls are missing: the driver counts every call.
Measured on complete traces of V100 to H100 and MI300X: 1 to 12; on one whose events were sampled: 216."""

LEAST = 20
"""Kernels below which there is no training to judge: the smallest step that was seen launches 60."""

RECORD_AGAIN = "record again with torch.profiler.profile(activities=[CPU, CUDA], schedule=schedule(1, 1, 4))"


def without_work(trace: Trace) -> list[Missing]:
    """Return why a trace has nothing to judge."""
    if len(trace.work.start):
        return []
    return [_missing("device work: the trace holds no kernel", f"{RECORD_AGAIN} on the GPU machine")]


def reasons_against(trace: Trace, breakdown: Breakdown) -> list[Missing]:
    """Return what keeps the shares from meaning what they say."""
    found = []
    num_kernels = int((trace.work.kind == KERNEL).sum())
    if num_kernels < LEAST:
        found.append(_missing(f"a training: {num_kernels} kernel(s) are no step", RECORD_AGAIN))
    if breakdown.recorded < RECORDED:
        found.append(_missing(f"kernel records: {breakdown.recorded:.0%} of the launches have one", RECORD_AGAIN))
    distance = _distance(trace)
    if distance > APART:
        told = f"all events: neighbouring calls are {distance:.0f} numbers apart, most are not in the file"
        found.append(_missing(told, RECORD_AGAIN))
    unknown = breakdown.idle["unattributed"]
    if unknown > UNATTRIBUTED:
        told = f"the reason for {unknown:.0%} of the time, in which the device idles and the host shows nothing"
        found.append(_missing(told, f"{RECORD_AGAIN}, with_stack=True"))
    return found


def _distance(trace: Trace) -> float:
    ids = np.unique(np.concatenate((trace.calls.correlation, trace.work.correlation)))
    ids = ids[ids != NO_CORRELATION]
    return float(np.diff(ids).mean()) if len(ids) > 1 else 0.0


def _missing(observation: str, command: str) -> Missing:
    return Missing(observation=observation, needed_for="every category", command=command)
