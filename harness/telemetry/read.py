"""Which tool wrote this telemetry, and what does it say? Told by the first lines, never by the name of the file."""

from __future__ import annotations

import re
from pathlib import Path

from harness.telemetry.columns import is_header, read_columns
from harness.telemetry.nccl_log import BARRIER, LINE, MISMATCH
from harness.telemetry.normal import Telemetry
from harness.telemetry.query import NAMES_NEEDED, header_of, is_nameless, read_query
from harness.telemetry.report import is_heading, read_report
from harness.telemetry.table import is_row, read_table
from harness.telemetry.text import head_of, lines_of

NCCL = "NCCL"
QUERY, COLUMNS, REPORT, TABLE = "nvidia-smi --query-gpu", "nvidia-smi dmon", "nvidia-smi -q", "nvidia-smi"
NAMELESS, XML = "nvidia-smi --format=csv,noheader", "nvidia-smi -q -x"

READERS = {QUERY: read_query, COLUMNS: read_columns, REPORT: read_report, TABLE: read_table}

MAX_SAMPLES = 200_000
"""Samples that are kept, about 200 MB: eight GPUs, once a second, for seven hours."""

TRAINING = re.compile(r"\b\w*loss\w*\b['\"]?\s*[:=|]?\s*[-+]?(?:\d|nan\b|inf\b)", re.IGNORECASE)
"""What a training log has and telemetry has not."""
STEPS = re.compile(r"\b(?:epoch|step|iter(?:ation)?)\b\W{0,3}\d|out of memory", re.IGNORECASE)
OUT_OF_MEMORY = re.compile(r"out of memory", re.IGNORECASE)
NCCL_LINE = re.compile(
    LINE.pattern
    + r"|ncclSystemError|ncclRemoteError|ncclUnhandledCudaError|ncclInternalError|ncclInvalidUsage|NCCL error in"
)
HANG = re.compile(
    "|".join(
        (r"Watchdog caught collective operation timeout", MISMATCH.pattern, BARRIER.pattern.replace("?P<ranks>", "?:"))
    )
)

FEW = 60
"""Lines among which the header of a table is looked for: a job script may have greeted first."""


def kind_of(path: Path) -> str:
    """Return the tool that wrote the file; empty for any other file, and for a training log that holds such lines.

    UsageError when the file cannot be read.
    """
    kind = _kind([line for line in head_of(path) if line.strip()])
    if kind:
        return "" if _any_line(path, TRAINING, STEPS) else kind
    if not _holds(path, b"NCCL") or _any_line(path, TRAINING) or not _any_line(path, NCCL_LINE, HANG):
        return ""
    return NCCL if _any_line(path, HANG) or not _any_line(path, OUT_OF_MEMORY) else ""


def _any_line(path: Path, *patterns: re.Pattern[str]) -> bool:
    return any(pattern.search(text) for _, text in lines_of(path) for pattern in patterns)


def _holds(path: Path, word: bytes) -> bool:
    """Whether the bytes of a file hold a word, in UTF-16 too: far faster than to look at its lines."""
    wide = b"\0".join(word[at : at + 1] for at in range(len(word)))
    with path.open("rb") as file:
        tail = b""
        while chunk := file.read(1 << 20):
            if word in tail + chunk or wide in tail + chunk:
                return True
            tail = chunk[-len(wide) :]
    return False


def _kind(lines: list[str]) -> str:
    """Tell by the earliest line that only one tool writes."""
    for line in lines[:FEW]:
        if "<nvidia_smi_log>" in line:
            return XML
        if header_of(line):
            return QUERY
        if is_header(line):
            return COLUMNS
        if is_row(line):
            return TABLE
        if is_heading(line):
            return REPORT
    return NAMELESS if is_nameless(lines[:5]) else ""


def read_telemetry(path: Path, kind: str = "") -> Telemetry:
    """Read the samples of a file, whose kind may be known; UsageError when it cannot be read."""
    kind = kind or kind_of(path)
    into = Telemetry(str(path), kind or "no telemetry")
    if kind in READERS:
        READERS[kind](lines_of(path), into, MAX_SAMPLES)
    else:
        into.unusable = {NAMELESS: NAMES_NEEDED, XML: "its text form: XML is not read"}.get(kind, "samples of GPUs")
    return into
