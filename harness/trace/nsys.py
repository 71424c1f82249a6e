"""How is a SQLite export of Nsight Systems read?

``nsys export --type sqlite`` writes one table for each kind of event; which tables and columns there are depends on the
version and on what was recorded. Tried on two real exports; the other schemas from the lists of their
tables. Times are nanoseconds, names are ids into StringIds.
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.trace.build import Columns, Names
from harness.trace.normal import COPY, KERNEL, NO_CORRELATION, SET, DeviceWork, HostCalls, Spans, Trace

MAGIC = b"SQLite format 3\x00"

WORK = {
    "CUPTI_ACTIVITY_KIND_KERNEL": KERNEL,
    "CUPTI_ACTIVITY_KIND_MEMCPY": COPY,
    "CUPTI_ACTIVITY_KIND_MEMSET": SET,
}

CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"

RANGES = "NVTX_EVENTS"

STEP = re.compile(r"^(ProfilerStep#?|(train(ing)?[ _:-]*)?(step|iter(ation)?))[ _:#-]*\d*$", re.IGNORECASE)
"""How ranges around a step of a training are called."""

LOADING = re.compile(r"data[ _]?load|load[ _]?(batch|data)|next[ _]?batch|fetch[ _]?(batch|data)", re.IGNORECASE)
"""How ranges around the wait for a batch are called."""

VERSION = re.compile(r"_v\d+(_ptsz|_ptds)?$|_v\d+020$")
"""What Nsight Systems adds to the name of a call: cudaLaunchKernel_v7000."""

KINDS = {1: "Memcpy HtoD", 2: "Memcpy DtoH", 8: "Memcpy DtoD", 10: "Memcpy PtoP"}
"""cudaMemcpyKind as CUPTI counts it."""


def is_export(head: bytes) -> bool:
    """Tell whether a file that begins with these bytes is a SQLite file."""
    return head.startswith(MAGIC)


def read_export(path: Path) -> Trace:
    """Read one export; UsageError says why it cannot be used."""
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            return _normal(database, path)
    except sqlite3.Error as error:
        raise UsageError(f"{path}: no export of Nsight Systems, or damaged: {error}") from error


class Tables:
    """Reads tables by the columns that they have."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database
        self.texts: dict[int, str] = dict(self.rows("StringIds", "id", "value", order=""))

    def rows(self, table: str, *wanted: str, order: str = "ORDER BY start") -> list[tuple[Any, ...]]:
        """Return the wanted columns of a table, None for those that it lacks; nothing where there is no such table."""
        there = {row[1] for row in self.database.execute(f"PRAGMA table_info({table})")}
        if not there:
            return []
        chosen = ", ".join(f'"{name}"' if name in there else "NULL" for name in wanted)
        return self.database.execute(f"SELECT {chosen} FROM {table} {order}").fetchall()

    def text(self, key: Any) -> str:
        """Return the text that an id stands for."""
        return self.texts.get(key, "")


def _normal(database: sqlite3.Connection, path: Path) -> Trace:
    tables, names = Tables(database), Names()
    work, calls, steps, loading = Columns(num_whole=5), Columns(num_whole=2), Columns(), Columns()
    for table, kind in WORK.items():
        _add_work(tables, names, work, table, kind)
    for start, end, name, correlation in tables.rows(CALLS, "start", "end", "nameId", "correlationId"):
        if end is not None:
            place = names.place(VERSION.sub("", tables.text(name)))
            calls.add(start / 1e3, end / 1e3, place, _known(correlation))
    for start, end, text, key in tables.rows(RANGES, "start", "end", "text", "textId"):
        told = text or tables.text(key)
        kept = steps if STEP.match(told) else loading if LOADING.search(told) else None
        if end is not None and kept is not None:
            kept.add(start / 1e3, end / 1e3)
    firsts = [first for columns in (work, calls) if (first := columns.first()) is not None]
    if not firsts:
        raise UsageError(f"{path}: no export of Nsight Systems with CUDA events; record with --trace=cuda,nvtx")
    gpus = tables.rows("TARGET_INFO_GPU", "name", order="")
    return Trace(
        file=str(path),
        names=list(names.places),
        work=DeviceWork(*work.sorted_from(min(firsts))),
        calls=HostCalls(*calls.sorted_from(min(firsts))),
        steps=Spans(*steps.sorted_from(min(firsts))),
        loading=Spans(*loading.sorted_from(min(firsts))),
        busy=Spans(*Columns().sorted_from(0.0)),
        gpu=str(gpus[0][0]) if gpus else "",
    )


def _add_work(tables: Tables, names: Names, work: Columns, table: str, kind: int) -> None:
    wanted = ("start", "end", "demangledName", "shortName", "copyKind", "deviceId", "streamId", "correlationId")
    for start, end, name, short, copy, device, stream, correlation in tables.rows(table, *wanted):
        told = tables.text(name) or tables.text(short) if kind == KERNEL else KINDS.get(copy, "Memcpy")
        place = names.place(told if kind != SET else "Memset")
        work.add(start / 1e3, end / 1e3, place, kind, device or 0, stream or 0, _known(correlation))


def _known(correlation: Any) -> int:
    return correlation if isinstance(correlation, int) else NO_CORRELATION
