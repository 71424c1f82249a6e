"""What do ``nvidia-smi dmon``, ``nvidia-smi pmon`` and ``dcgmi dmon`` say? Columns under a header with #."""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness.telemetry.normal import (
    ECC_ERRORS,
    ECC_LIFETIME,
    MAX_SM_CLOCK,
    MEMORY_TOTAL,
    MEMORY_USED,
    POWER,
    POWER_LIMIT,
    POWER_VIOLATION,
    REPAIR_FAILED,
    REPAIR_PENDING,
    SM_CLOCK,
    SW_THERMAL,
    TEMPERATURE,
    UTILISATION,
    Process,
    Sample,
    Telemetry,
    number,
    reasons_of,
)

DMON = {
    "pwr": POWER,
    "gtemp": TEMPERATURE,
    "temp": TEMPERATURE,
    "sm": UTILISATION,
    "pclk": SM_CLOCK,
    "fb": MEMORY_USED,
    "dbecc": ECC_LIFETIME,
    "pviol": POWER_VIOLATION,
}
"""Columns of ``nvidia-smi dmon``; its man page says what they are."""

DCGM = {
    "gputl": UTILISATION,
    "tmptr": TEMPERATURE,
    "power": POWER,
    "pmlmt": POWER_LIMIT,
    "smclk": SM_CLOCK,
    "smmax": MAX_SM_CLOCK,
    "fbusd": MEMORY_USED,
    "fbttl": MEMORY_TOTAL,
    "edvtl": ECC_ERRORS,
    "edatl": ECC_LIFETIME,
    "rppen": REPAIR_PENDING,
    "rmrdf": REPAIR_FAILED,
}
"""Short names of ``dcgmi dmon -l``."""

ACTIVE = "gract"
"""The share of time in which the graphics engine was busy, 0 to 1 (DCGM_FI_PROF_GR_ENGINE_ACTIVE)."""

REASONS = ("dvcctr", "ttlrsn")

DMON_HEADER = re.compile(
    r"^\s*#\s*(?:date[ ,]+)?(?:time[ ,]+)?gpu\b(?:[ ,]+\w+)*[ ,]+(?:pwr|sm|pid|pviol|pclk|fb|sbecc|rxpci)\b[\w ,]*$",
    re.IGNORECASE,
)
DCGM_HEADER = re.compile(r"^\s*#\s*Entity(?:\s+[A-Z][A-Z0-9#]{2,5})+\s*$")
UNITS_ROW = re.compile(r"^\s*#")
ENTITY = re.compile(r"^\s*(?:GPU|GPU-I|GPU-CI)\s+(\d+)\s", re.IGNORECASE)


def is_header(line: str) -> bool:
    """Whether a line is the header of such a table."""
    return bool(DMON_HEADER.match(line) or DCGM_HEADER.match(line))


def read_columns(lines: Iterable[tuple[int, str]], into: Telemetry, most: int) -> None:
    """Read a table; its header comes again and again."""
    names: list[str] = []
    for line, text in lines:
        if is_header(text):
            names = [name.lower() for name in re.split(r"[ ,\t]+", text.replace("#", " ").strip())]
            into.kind = "dcgmi dmon" if names[0] == "entity" else "nvidia-smi pmon" if "pid" in names else into.kind
        elif names and not UNITS_ROW.match(text) and len(into.samples) + len(into.processes) < most:
            _read_row(line, text, names, into)
    into.lists_processes = into.kind == "nvidia-smi pmon"
    if not into.samples and not into.processes:
        into.unusable = "rows with numbers below the names of the columns"


def _read_row(line: int, text: str, names: list[str], into: Telemetry) -> None:
    if names[0] == "entity":
        entity = ENTITY.match(text)
        if entity:  # the number of the entity has no column of its own
            cells = [entity[1], *text[entity.end() - 1 :].split()]
            _add(line, cells, names, into)
        return
    cells = [cell.strip() for cell in text.split(",")] if "," in text else text.split()
    if cells and "pid" in names and len(cells) > len(names):  # a command may have arguments
        cells = [*cells[: len(names) - 1], " ".join(cells[len(names) - 1 :])]
    _add(line, cells, names, into)


def _add(line: int, cells: list[str], names: list[str], into: Telemetry) -> None:
    row = dict(zip(names, cells, strict=False))
    gpu = row.get("gpu", row.get("entity", ""))
    if len(cells) != len(names) or not gpu.isdecimal():
        into.unread_lines += bool(cells and cells[0].isdecimal())
    elif "pid" in row:
        if row["pid"] != "-":
            name, kind = row.get("command", row.get("name", "")), row.get("type", "")
            into.processes.append(Process(gpu, row["pid"], kind, name, line, number(row.get("fb", ""))))
    else:
        known = DCGM if names[0] == "entity" else DMON
        told = {known[name]: number(cell) for name, cell in row.items() if name in known}
        numbers = {name: value for name, value in told.items() if value is not None}
        if UTILISATION not in numbers and (share := number(row.get(ACTIVE, ""))) is not None:
            numbers[UTILISATION] = 100 * share
        time = " ".join(row[name] for name in ("date", "time") if name in row)
        into.samples.append(Sample(gpu, line, numbers, _reasons(row), time))


def _reasons(row: dict[str, str]) -> frozenset[str] | None:
    for name in REASONS:
        if (mask := number(row.get(name, ""))) is not None:
            return reasons_of(int(mask))
    hot = number(row.get("tviol", ""))
    return frozenset({SW_THERMAL}) if hot else None
