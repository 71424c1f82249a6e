"""``gpu-exam diagnose trace.json.gz``: where does a profiler's trace lose its time?"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from harness.cli.terminal import say, table
from harness.cli.words import as_json, as_words
from harness.errors import UsageError
from harness.trace.diagnosis import TraceDiagnosis, diagnose_trace
from harness.trace.torch_json import is_trace, read_trace

HEAD = 65536
"""Bytes of a file that are looked at to tell what it is."""

MAX_NAME = 80
"""Characters of a kernel's name that are shown."""


def are_traces(paths: list[str]) -> bool:
    """Whether the files are traces; UsageError when a trace is given beside other files."""
    traces = [path for path in paths if is_trace(_head(Path(path)))]
    if traces and len(paths) > 1:
        raise UsageError(f"{paths[1]}: a second file beside the trace {traces[0]}; one trace is accepted")
    return bool(traces)


def diagnose_trace_file(path: str, *, json: bool, verbose: bool = False) -> TraceDiagnosis:
    """Diagnose one trace, and print what was found with where the time went."""
    result = diagnose_trace(read_trace(Path(path)))
    words = as_words(result, verbose=verbose)
    say(as_json(result) if json else "\n".join([*words, *(_where(result) if result.shares else [])]))
    return result


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            begin = file.read(HEAD)
    except OSError:
        return b""
    if begin[:2] == b"\x1f\x8b":
        try:
            begin = zlib.decompressobj(wbits=31).decompress(begin, HEAD)
        except (zlib.error, gzip.BadGzipFile):
            return b""
    if begin[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return begin.decode("utf-16", errors="replace").encode()
    return begin


def _where(result: TraceDiagnosis) -> list[str]:
    """Return the partition of the window, and the kernels that take most of it."""
    idle = result.shares["idle"]
    rows = [(name, share) for name, share in result.shares.items() if isinstance(share, float)]
    rows += [(f"idle, {name}", share) for name, share in idle.items()] if isinstance(idle, dict) else []
    told = ", ".join(f"{name.replace('_', ' ')} {share:.1%}" for name, share in rows if share >= 0.0005)
    steps = f"{result.window['steps']:.0f} step(s)" if result.window["steps"] else "the device work"
    lines = [f"window: {result.window['length_us'] / 1000:.4g} ms, {steps}; {told}"]
    top = [(f"{k['share']:.1%}", f"{k['count']} x", str(k["name"])[:MAX_NAME]) for k in result.top_kernels[:5]]
    return [*lines, *(["kernels:", *table(top)] if top else [])]
