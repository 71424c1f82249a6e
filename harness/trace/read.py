"""Which format has a trace? Told by its first bytes, never by its name."""

from __future__ import annotations

import zlib
from pathlib import Path

from harness.trace import nsys, torch_json
from harness.trace.normal import Trace

HEAD = 65536
"""Bytes of a file that are looked at."""


def is_trace(path: Path) -> bool:
    """Tell whether a file may be a trace of a profiler."""
    head = _head(path)
    return nsys.is_export(head) or torch_json.is_trace(head)


def read_trace(path: Path) -> Trace:
    """Read a trace of any known format; UsageError says why it cannot be used."""
    return nsys.read_export(path) if nsys.is_export(_head(path)) else torch_json.read_trace(path)


def _head(path: Path) -> bytes:
    """Return the beginning of a file, unpacked and in UTF-8; nothing where it cannot be read."""
    try:
        with path.open("rb") as file:
            begin = file.read(HEAD)
    except OSError:
        return b""
    if begin[:2] == b"\x1f\x8b":
        try:
            begin = zlib.decompressobj(wbits=31).decompress(begin, HEAD)
        except zlib.error:
            return b""
    is_utf16 = begin[:2] in {b"\xff\xfe", b"\xfe\xff"}
    return begin.decode("utf-16", errors="replace").encode() if is_utf16 else begin
