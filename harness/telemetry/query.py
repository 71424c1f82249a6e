"""What does ``nvidia-smi --query-gpu=... --format=csv`` say? Columns by their names, with units or without."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable

from harness.telemetry.normal import (
    DEFAULT_LIMIT,
    ECC_ERRORS,
    ECC_LIFETIME,
    MAX_SM_CLOCK,
    MEMORY_TOTAL,
    MEMORY_USED,
    MIG,
    PCIE_GEN,
    PCIE_GEN_MAX,
    PCIE_WIDTH,
    PCIE_WIDTH_MAX,
    POWER,
    POWER_LIMIT,
    REASON_BITS,
    REPAIR_FAILED,
    REPAIR_PENDING,
    RESET_NEEDED,
    SM_CLOCK,
    TEMPERATURE,
    UTILISATION,
    Process,
    Sample,
    Telemetry,
    affirmed,
    number,
    reasons_of,
)

NUMBERS = {
    "utilization.gpu": UTILISATION,
    "memory.used": MEMORY_USED,
    "memory.total": MEMORY_TOTAL,
    "power.draw": POWER,
    "power.draw.average": POWER,
    "power.draw.instant": POWER,
    "power.limit": POWER_LIMIT,
    "enforced.power.limit": POWER_LIMIT,
    "power.default_limit": DEFAULT_LIMIT,
    "temperature.gpu": TEMPERATURE,
    "clocks.sm": SM_CLOCK,
    "clocks.current.sm": SM_CLOCK,
    "clocks.gr": SM_CLOCK,
    "clocks.current.graphics": SM_CLOCK,
    "clocks.max.sm": MAX_SM_CLOCK,
    "clocks.max.gr": MAX_SM_CLOCK,
    "clocks.max.graphics": MAX_SM_CLOCK,
    "pcie.link.gen.current": PCIE_GEN,
    "pcie.link.gen.gpucurrent": PCIE_GEN,
    "pcie.link.gen.max": PCIE_GEN_MAX,
    "pcie.link.width.current": PCIE_WIDTH,
    "pcie.link.width.max": PCIE_WIDTH_MAX,
    "ecc.errors.uncorrected.volatile.total": ECC_ERRORS,
    "ecc.errors.uncorrected.aggregate.total": ECC_LIFETIME,
}
"""Names of ``nvidia-smi --help-query-gpu``."""

ANSWERS = {
    "retired_pages.pending": REPAIR_PENDING,
    "remapped_rows.pending": REPAIR_PENDING,
    "remapped_rows.failure": REPAIR_FAILED,
    "reset_status.reset_required": RESET_NEEDED,
    "mig.mode.current": MIG,
}

IDENTITIES = ("index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "gpu_name", "name")
"""Columns that say which GPU it is, the shortest first."""

OTHERS = {
    *IDENTITIES,
    *("timestamp", "pstate", "count", "driver_version", "serial", "gpu_serial", "pid", "process_name", "used_memory"),
    *("used_gpu_memory", "fan.speed", "compute_mode", "compute_cap", "persistence_mode"),
}

MASK = re.compile(r"clocks_(?:throttle|event)_reasons\.active")
REASON = re.compile(r"clocks_(?:throttle|event)_reasons\.(\w+)")
FAMILY = re.compile(
    r"(?:utilization|memory|power|enforced\.power|temperature|clocks|clocks_throttle_reasons|clocks_event_reasons|pcie"
    r"|ecc|retired_pages|remapped_rows|encoder|gom|mig|vbios|inforom|driver_model|display|accounting|gsp|pci)"
    r"[._][\w.]+"
)
NAME = re.compile(r"^[a-z][\w.]*(?: \[[^\]]*\])?$")

UNITS = re.compile(r"^\d+(?:\.\d+)? (?:%|MiB|W|MHz)$")

NAMES_NEEDED = "the names of its columns: it was written with noheader"


def header_of(line: str) -> list[str] | None:
    """Return the names of the columns where a line is the header of such a table, otherwise None."""
    cells = cells_of(line)
    names = [cell.split(" [")[0].lower() for cell in cells]
    if len(cells) < 2 or not all(NAME.match(cell.lower()) for cell in cells):
        return None
    telling = sum(name in NUMBERS or name in ANSWERS or bool(REASON.match(name)) for name in names)
    known = sum(name in OTHERS or bool(FAMILY.fullmatch(name)) for name in names)
    told = telling or {"pid", "used_gpu_memory"} <= set(names) or {"pid", "used_memory"} <= set(names)
    return names if told and known == len(names) else None


def is_nameless(lines: list[str]) -> bool:
    """Whether these are rows of such a table that lack their header: every one has cells with units."""
    rows = [cells_of(line) for line in lines]
    same = len({len(row) for row in rows}) == 1
    return bool(rows) and same and all(any(UNITS.match(cell) for cell in row) for row in rows) and len(rows[0]) >= 2


def cells_of(line: str) -> list[str]:
    """Return the cells of a row; a spreadsheet may have put semicolons or tabs between them."""
    mark = next((mark for mark in (", ", ";", "\t", ",") if mark in line), ",")
    if '"' in line:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=mark[0], skipinitialspace=True), [])]
    return [cell.strip() for cell in line.split(mark[0])]


def read_query(lines: Iterable[tuple[int, str]], into: Telemetry, most: int) -> None:
    """Read a table; a header in the middle of it begins another one."""
    names: list[str] = []
    for line, text in lines:
        if header := header_of(text):
            names = header
            continue
        cells = cells_of(text)
        if not names or len(cells) < 2:
            continue
        if len(cells) != len(names):
            into.unread_lines += 1
        elif len(into.samples) < most:
            _read_row(line, dict(zip(names, cells, strict=True)), into)
    if not into.samples and not into.processes:
        into.unusable = "rows below the names of the columns"


def _read_row(line: int, row: dict[str, str], into: Telemetry) -> None:
    gpu = next((row[name] for name in IDENTITIES if row.get(name)), "")
    if "pid" in row:
        used = row.get("used_gpu_memory") or row.get("used_memory") or ""
        into.processes.append(Process(gpu, row["pid"], "C", row.get("process_name", ""), line, number(used)))
        into.lists_processes = True
        return
    told = [(NUMBERS[name], number(cell)) for name, cell in row.items() if name in NUMBERS]
    told += [(ANSWERS[name], affirmed(cell)) for name, cell in row.items() if name in ANSWERS]
    numbers = {name: value for name, value in told if value is not None}
    if any("requires reset" in cell.lower() for cell in row.values()):
        numbers[RESET_NEEDED] = 1.0
    into.samples.append(Sample(gpu, line, numbers, _reasons(row), row.get("timestamp", "")))


def _reasons(row: dict[str, str]) -> frozenset[str] | None:
    told: frozenset[str] | None = None
    for name, cell in row.items():
        if MASK.fullmatch(name):
            told = _masked(cell) if told is None else told | (_masked(cell) or frozenset())
        elif (match := REASON.fullmatch(name)) and match[1] in REASON_BITS.values():
            answer = affirmed(cell)
            if answer is not None:
                told = (told or frozenset()) | ({match[1]} if answer else frozenset())
    return told


def _masked(cell: str) -> frozenset[str] | None:
    try:
        return reasons_of(int(cell, 0))
    except ValueError:
        return None
