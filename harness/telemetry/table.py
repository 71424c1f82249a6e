"""What does the table of plain ``nvidia-smi`` say? Two rows for each GPU, and the processes below them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness.telemetry.normal import (
    ECC_ERRORS,
    MEMORY_TOTAL,
    MEMORY_USED,
    POWER,
    POWER_LIMIT,
    RESET_NEEDED,
    TEMPERATURE,
    UTILISATION,
    Process,
    Sample,
    Telemetry,
    number,
)

BANNER = re.compile(r"^\s*\|\s*NVIDIA-SMI\s+\d")
FIRST = re.compile(
    r"^\s*\|\s+(\d+)\s+\S.*\|\s*[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d\s+\S+\s*\|\s*(\S+)\s*\|?\s*$"
)
SECOND = re.compile(
    r"^\s*\|\s*\S+\s+(?P<temperature>\d+C?|N/A|ERR!)\s+(?:P\d+|N/A|ERR!)\s+(?P<power>\S+)\s*/\s*(?P<limit>\S+)\s*\|"
    r"\s*(?P<used>\d+)\s*MiB\s*/\s*(?P<total>\d+)\s*MiB\s*\|\s*(?P<utilisation>\d+\s*%|N/A|ERR!)?"
)
PROCESS = re.compile(
    r"^\s*\|\s+(\d+)\s+(?:(?:N/A|\d+)\s+(?:N/A|\d+)\s+)?(\d+)\s+(C\+G|M\+C|C|G)\s+(\S.*?)\s+(\d+MiB|N/A)\s*\|?\s*$"
)
PROCESSES = re.compile(r"^\s*\|\s*Processes:")


def is_row(line: str) -> bool:
    """Whether a line is one of such a table."""
    return bool(BANNER.match(line) or SECOND.match(line))


def read_table(lines: Iterable[tuple[int, str]], into: Telemetry, most: int) -> None:
    """Read the tables in a file; ``nvidia-smi -l`` writes one after the other. A row that is cut is left out."""
    gpu, ecc = "", ""
    for line, text in lines:
        if first := FIRST.match(text):
            gpu, ecc = first[1], first[2]
        elif (second := SECOND.match(text)) and len(into.samples) < most:
            into.samples.append(_sample(gpu, ecc, line, second))
            gpu, ecc = "", ""
        elif process := PROCESS.match(text):
            number_of, pid, kind, name, memory = process.groups()
            into.processes.append(Process(number_of, pid, kind, name, line, number(memory.removesuffix("MiB"))))
        into.lists_processes |= bool(PROCESSES.match(text))
    if not into.samples:
        into.unusable = "the rows of the GPUs"


def _sample(gpu: str, ecc: str, line: int, row: re.Match[str]) -> Sample:
    told = {
        UTILISATION: row["utilisation"] or "",
        MEMORY_USED: row["used"],
        MEMORY_TOTAL: row["total"],
        POWER: row["power"],
        POWER_LIMIT: row["limit"],
        TEMPERATURE: row["temperature"],
        ECC_ERRORS: ecc,
    }
    numbers = {name: value for name, text in told.items() if (value := number(text)) is not None}
    if "ERR!" in row.group(0):
        numbers[RESET_NEEDED] = 1.0
    return Sample(gpu, line, numbers)
