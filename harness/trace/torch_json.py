"""How is a trace of the PyTorch profiler read, of torch 1.8 to today, on CUDA and ROCm?"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from harness.errors import UsageError
from harness.trace.build import Names, columns
from harness.trace.normal import COPY, KERNEL, NO_CORRELATION, SET, DeviceWork, HostCalls, Spans, Trace

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

ALONE = "_SingleProcessDataLoaderIter"
"""The iterator of a DataLoader with num_workers=0."""

STEP = "ProfilerStep"

LOADING = re.compile(r"DataLoader.*__next__|dataloader\.py\(\d+\): __next__|#.*DataLoaderIter", re.IGNORECASE)


class Arguments(msgspec.Struct):
    """What an event says about itself."""

    correlation: Any = None
    stream: Any = None
    device: Any = None


class Event(msgspec.Struct):
    """One entry of ``traceEvents``; everything may be missing or of another type in somebody's file."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    ts: Any = None
    dur: Any = None
    args: Any = None
    pid: Any = None


class Fast(msgspec.Struct):
    """The same as profilers write it, with arguments that need no second look."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float = 0.0
    dur: float = 0.0
    args: Arguments | None = None
    pid: Any = None


class FastFile(msgspec.Struct):
    """A file as profilers write it."""

    traceEvents: list[Fast]  # noqa: N815 - the name of the format
    distributedInfo: Any = None  # noqa: N815
    deviceProperties: Any = None  # noqa: N815


FAST = msgspec.json.Decoder(FastFile)


def is_trace(head: bytes) -> bool:
    """Tell whether a file that begins with these bytes may be a trace."""
    return b"traceEvents" in head or b'"ph"' in head


def read_trace(path: Path) -> Trace:
    """Read one file; UsageError says why it cannot be used."""
    data = unpacked(path)
    try:
        found = FAST.decode(data)
    except msgspec.DecodeError:
        found = _repaired(data, path)
    return _normal(found, path)


def unpacked(path: Path) -> bytes:
    """Return the bytes of a file, unpacked when it is compressed."""
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(f"{path}: cannot be unpacked, the file is cut off or damaged: {error}") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error


BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrtu])')


def _repaired(data: bytes, path: Path) -> FastFile:
    """Read what is not quite JSON: other encodings, single backslashes, NaN, a bare array, numbers as texts."""
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
    tolerant = (_tolerant(event) for event in events if isinstance(event, dict))
    return FastFile(list(tolerant), about.get("distributedInfo"), about.get("deviceProperties"))


def _tolerant(event: dict[str, Any]) -> Fast:
    arguments = event.get("args")
    known = {name: arguments.get(name) for name in Arguments.__struct_fields__} if isinstance(arguments, dict) else {}
    texts = {name: str(event.get(name) or "") for name in ("ph", "cat", "name")}
    return Fast(
        **texts,
        ts=_float(event.get("ts")),
        dur=_float(event.get("dur")),
        args=Arguments(**known),
        pid=event.get("pid"),
    )


def _float(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0.0
    return number if np.isfinite(number) else 0.0


def _int(value: Any, otherwise: int) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        digits = re.search(r"-?\d+", str(value))
        return int(digits.group()) if digits else otherwise


def _normal(found: FastFile, path: Path) -> Trace:
    names = Names()
    work: list[tuple[float, float, int, int, int, int, int]] = []
    calls: list[tuple[float, float, int, int]] = []
    steps: list[tuple[float, float]] = []
    loading: list[tuple[float, float]] = []
    alone = False
    busy: list[tuple[float, float]] = []
    whole = [event for event in found.traceEvents if event.ph == "X"]
    base = min((event.ts for event in whole if event.ts > 0), default=0.0)
    for event in whole:
        start, category = event.ts - base, event.cat.lower()
        end = start + max(event.dur, 0.0)
        if category in DEVICE:
            kind, about = DEVICE[category], event.args or Arguments()
            ids = (_int(about.device, 0), _int(about.stream, 0), _int(about.correlation, NO_CORRELATION))
            work.append((start, end, names.place(event.name), kind, *ids))
        elif category in CALLS:
            correlation = _int(event.args.correlation if event.args else None, NO_CORRELATION)
            calls.append((start, end, names.place(event.name), correlation))
        elif category in OPERATORS:
            if event.name.startswith(STEP):
                steps.append((start, end))
            elif LOADING.search(event.name):
                loading.append((start, end))
                alone = alone or ALONE in event.name
            else:
                busy.append((start, end))
    info = found.distributedInfo if isinstance(found.distributedInfo, dict) else {}
    return Trace(
        file=str(path),
        names=list(names.places),
        work=DeviceWork(*columns(work, 7, floats=2)),
        calls=HostCalls(*columns(calls, 4, floats=2)),
        steps=Spans(*columns(steps, 2, floats=2)),
        loading=Spans(*columns(loading, 2, floats=2)),
        busy=Spans(*columns(busy, 2, floats=2)),
        rank=_known(info.get("rank")),
        num_ranks=_known(info.get("world_size")),
        gpu=_gpu(found.deviceProperties),
        loads_alone=alone,
    )


def _known(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _gpu(properties: Any) -> str:
    """Return the name of the first device."""
    devices = properties if isinstance(properties, list) else []
    names = (device.get("name") for device in devices if isinstance(device, dict))
    return next((name for name in names if isinstance(name, str)), "")
