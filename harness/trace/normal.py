"""What is a trace, whoever recorded it? Device work, host calls and spans as arrays, in one normal form.

Times are in microseconds from the first event of the file. An array holds one entry for each event of its kind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]
Ids = NDArray[np.int64]

KERNEL, COPY, SET = 0, 1, 2
"""Kinds of device work."""

NO_CORRELATION = -1
"""Stands where a kernel has no launch record, or a call launches nothing."""


@dataclass(frozen=True)
class DeviceWork:
    """Kernels, copies and memory sets, by their beginning."""

    start: Times
    end: Times
    name: Ids
    """Place in ``Trace.names``."""
    kind: Ids
    device: Ids
    stream: Ids
    correlation: Ids


@dataclass(frozen=True)
class HostCalls:
    """Calls of the runtime or driver (CUDA, HIP), by their beginning."""

    start: Times
    end: Times
    name: Ids
    correlation: Ids


@dataclass(frozen=True)
class Spans:
    """Stretches of time on the host."""

    start: Times
    end: Times


@dataclass(frozen=True)
class Trace:
    """One recorded process."""

    file: str
    names: list[str]
    work: DeviceWork
    calls: HostCalls
    steps: Spans
    """Those that the profiler was told of."""
    loading: Spans
    """The host waits for its next batch."""
    busy: Spans
    """The host runs an operator."""
    rank: int | None = None
    num_ranks: int | None = None
    gpu: str = ""
    loads_alone: bool = False
    """Whether batches are made by the training process itself, without workers."""
