"""How is a trace of the PyTorch profiler read, on CUDA and ROCm, in the forms that it had since torch 1.8?"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from harness.errors import UsageError
from harness.trace.build import Columns, Names
from harness.trace.normal import COPY, KERNEL, NO_CORRELATION, SET, DeviceWork, HostCalls, Spans, Trace
from harness.trace.stream import NotPlainError, Pieces

DEVICE = {
    "kernel": KERNEL,
    "gpu_kernel": KERNEL,
    "memcpy": COPY,
    "gpu_memcpy": COPY,
    "memset": SET,
    "gpu_memset": SET,
}
"""Category in lower case -> kind. What is called gpu_user_annotation or cuda_sync is no work."""

CALLS = {"runtime", "cuda_runtime", "cuda_driver", "driver", "hip_runtime", "hip_driver", "privateuse1_runtime"}

OPERATORS = {"operator", "cpu_op", "user_annotation", "python_function"}

KINDS = {name: name for name in DEVICE} | dict.fromkeys(CALLS, "call") | dict.fromkeys(OPERATORS, "operator")
"""Category -> what is done with its events."""

ALONE = "_SingleProcessDataLoaderIter"
"""The iterator of a DataLoader with num_workers=0."""

STEP = "ProfilerStep"

LOADING = re.compile(r"DataLoader.*__next__|dataloader\.py\(\d+\): __next__|#.*DataLoaderIter", re.IGNORECASE)


class Arguments(msgspec.Struct):
    """What an event says about itself."""

    correlation: Any = None
    stream: Any = None
    device: Any = None


NOTHING = Arguments()


class Event(msgspec.Struct):
    """One entry of ``traceEvents`` as profilers write it."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float = 0.0
    dur: float = 0.0
    args: Arguments | None = None


class About(msgspec.Struct):
    """What a file says beside its events."""

    distributedInfo: Any = None  # noqa: N815 - the names of the format
    deviceProperties: Any = None  # noqa: N815


EVENTS = msgspec.json.Decoder(list[Event])


def is_trace(head: bytes) -> bool:
    """Tell whether a file that begins with these bytes may be a trace."""
    return b"traceEvents" in head or b'"ph"' in head


def read_trace(path: Path) -> Trace:
    """Read one file; UsageError says why it cannot be used."""
    try:
        return _read_plain(path)
    except NotPlainError:
        return _read_repaired(path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(f"{path}: cannot be unpacked, the file is cut off or damaged: {error}") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error


def _read_plain(path: Path) -> Trace:
    """Read a file as profilers write it, piece by piece."""
    found = Collected()
    pieces = Pieces(path, EVENTS.decode)
    for events in pieces:
        found.add(events)
    try:
        about = msgspec.json.decode(pieces.rest, type=About)
    except msgspec.DecodeError as error:
        raise NotPlainError(str(error)) from error
    return found.trace(path, about)


BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrtu])')


def _read_repaired(path: Path) -> Trace:
    """Read what is not quite JSON: other encodings, single backslashes, NaN, a bare array, numbers as texts."""
    data = path.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    encoding = "utf-16" if data[:2] in {b"\xff\xfe", b"\xfe\xff"} else "utf-8-sig"
    text = data.decode(encoding, errors="replace")
    try:
        found = json.loads(BAD_ESCAPE.sub(r"\\\\", text), strict=False)
    except ValueError as error:
        raise UsageError(f"{path}: no JSON, or cut off: {error}") from error
    events = found.get("traceEvents") if isinstance(found, dict) else found
    if not isinstance(events, list):
        raise UsageError(f"{path}: no trace: it has no list traceEvents; a trace of the PyTorch profiler is accepted")
    about = found if isinstance(found, dict) else {}
    collected = Collected()
    collected.add(_tolerant(event) for event in events if isinstance(event, dict))
    return collected.trace(path, About(about.get("distributedInfo"), about.get("deviceProperties")))


def _tolerant(event: dict[str, Any]) -> Event:
    arguments = event.get("args")
    known = {name: arguments.get(name) for name in Arguments.__struct_fields__} if isinstance(arguments, dict) else {}
    texts = {name: str(event.get(name) or "") for name in ("ph", "cat", "name")}
    return Event(
        **texts,
        ts=_float(event.get("ts")),
        dur=_float(event.get("dur")),
        args=Arguments(**known),
    )


def _float(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0.0
    return number if np.isfinite(number) else 0.0


def _int(value: Any, otherwise: int) -> int:
    if type(value) is int:
        return value
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        digits = re.search(r"-?\d+", str(value))
        return int(digits.group()) if digits else otherwise


class Collected:
    """The events of a file, as columns."""

    def __init__(self) -> None:
        self.names = Names()
        self.work, self.calls = Columns(num_whole=5), Columns(num_whole=2)
        self.steps, self.loading, self.busy = Columns(), Columns(), Columns()
        self.loads_alone = False

    def add(self, events: Iterable[Event]) -> None:
        """Keep those that say where time goes."""
        for event in events:
            if event.ph == "X":
                self._add(event, KINDS.get(event.cat) or KINDS.get(event.cat.lower(), ""))

    def _add(self, event: Event, kind: str) -> None:
        start, end = event.ts, event.ts + max(event.dur, 0.0)
        if kind == "operator":
            self._add_operator(event.name, start, end)
        elif kind == "call":
            correlation = _int(event.args.correlation if event.args else None, NO_CORRELATION)
            self.calls.add(start, end, self.names.place(event.name), correlation)
        elif kind:
            about = event.args or NOTHING
            ids = (_int(about.device, 0), _int(about.stream, 0), _int(about.correlation, NO_CORRELATION))
            self.work.add(start, end, self.names.place(event.name), DEVICE[kind], *ids)

    def _add_operator(self, name: str, start: float, end: float) -> None:
        if name.startswith(STEP):
            self.steps.add(start, end)
        elif "oader" in name and LOADING.search(name):
            self.loading.add(start, end)
            self.loads_alone = self.loads_alone or ALONE in name
        else:
            self.busy.add(start, end)

    def trace(self, path: Path, about: About) -> Trace:
        """Return them in the normal form."""
        every = (self.work, self.calls, self.steps, self.loading, self.busy)
        base = min((first for columns in every if (first := columns.first()) is not None), default=0.0)
        info = about.distributedInfo if isinstance(about.distributedInfo, dict) else {}
        return Trace(
            file=str(path),
            names=list(self.names.places),
            work=DeviceWork(*self.work.sorted_from(base)),
            calls=HostCalls(*self.calls.sorted_from(base)),
            steps=Spans(*self.steps.sorted_from(base)),
            loading=Spans(*self.loading.sorted_from(base)),
            busy=Spans(*self.busy.sorted_from(base)),
            rank=_known(info.get("rank")),
            num_ranks=_known(info.get("world_size")),
            gpu=_gpu(about.deviceProperties),
            loads_alone=self.loads_alone,
        )


def _known(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _gpu(properties: Any) -> str:
    """Return the name of the first device."""
    devices = properties if isinstance(properties, list) else []
    names = (device.get("name") for device in devices if isinstance(device, dict))
    return next((name for name in names if isinstance(name, str)), "")
