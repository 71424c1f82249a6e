"""What does ``nvidia-smi -q`` say? Lines of ``key : value`` under headings, told apart by their indentation."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.telemetry.normal import (
    APPLICATION_CLOCKS,
    DEFAULT_LIMIT,
    ECC_ERRORS,
    HW_SLOWDOWN,
    HW_THERMAL,
    IDLE,
    MAX_SM_CLOCK,
    MEMORY_TOTAL,
    MEMORY_USED,
    MIG,
    PCIE_GEN,
    PCIE_GEN_MAX,
    PCIE_WIDTH,
    PCIE_WIDTH_MAX,
    POWER,
    POWER_BRAKE,
    POWER_CAP,
    POWER_LIMIT,
    REPAIR_FAILED,
    REPAIR_PENDING,
    RESET_NEEDED,
    SM_CLOCK,
    SW_THERMAL,
    SYNC_BOOST,
    TEMPERATURE,
    UTILISATION,
    Process,
    Sample,
    Telemetry,
    affirmed,
    number,
)

NUMBERS = {
    ("utilization", "gpu"): UTILISATION,
    ("fb memory usage", "used"): MEMORY_USED,
    ("fb memory usage", "total"): MEMORY_TOTAL,
    ("power readings", "power draw"): POWER,
    ("power readings", "power limit"): POWER_LIMIT,
    ("power readings", "enforced power limit"): POWER_LIMIT,
    ("power readings", "default power limit"): DEFAULT_LIMIT,
    ("gpu power readings", "power draw"): POWER,
    ("gpu power readings", "average power draw"): POWER,
    ("gpu power readings", "instantaneous power draw"): POWER,
    ("gpu power readings", "current power limit"): POWER_LIMIT,
    ("gpu power readings", "default power limit"): DEFAULT_LIMIT,
    ("temperature", "gpu current temp"): TEMPERATURE,
    ("clocks", "sm"): SM_CLOCK,
    ("max clocks", "sm"): MAX_SM_CLOCK,
    ("pcie generation", "current"): PCIE_GEN,
    ("pcie generation", "max"): PCIE_GEN_MAX,
    ("link width", "current"): PCIE_WIDTH,
    ("link width", "max"): PCIE_WIDTH_MAX,
}
"""Heading and key, as the man page of nvidia-smi has them, in small letters."""

ANSWERS = {
    ("retired pages", "pending"): REPAIR_PENDING,
    ("retired pages", "pending page blacklist"): REPAIR_PENDING,
    ("remapped rows", "pending"): REPAIR_PENDING,
    ("remapped rows", "remapping failure occurred"): REPAIR_FAILED,
    ("gpu reset status", "reset required"): RESET_NEEDED,
    ("mig mode", "current"): MIG,
}

REASONS = {
    "idle": IDLE,
    "applications clocks setting": APPLICATION_CLOCKS,
    "sw power cap": POWER_CAP,
    "hw slowdown": HW_SLOWDOWN,
    "hw thermal slowdown": HW_THERMAL,
    "hw power brake slowdown": POWER_BRAKE,
    "sync boost": SYNC_BOOST,
    "sw thermal slowdown": SW_THERMAL,
}

HEADING = re.compile(
    r"^\s*(?:=+NVSMI LOG=+|Clocks (?:Throttle|Event) Reasons|FB Memory Usage|GPU Link Info|Max Clocks|Remapped Rows"
    r"|(?:GPU )?Power Readings|ECC Errors|Retired Pages)\s*$"
)
"""Headings that no other program prints."""

GPU = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
PAIR = re.compile(r"^(\s*)(\S[^:]*?)\s*:\s(.*\S)\s*$")


def is_heading(line: str) -> bool:
    """Whether a line is a heading of ``nvidia-smi -q``."""
    return bool(HEADING.match(line))


@dataclass
class _Card:
    """The GPU whose lines are being read."""

    gpu: str = ""
    line: int = 0
    numbers: dict[str, float] = field(default_factory=dict)
    reasons: set[str] | None = None
    process: dict[str, str] = field(default_factory=dict)

    def take(self, path: list[str], key: str, value: str) -> bool:
        """Take a line of use; whether it was one."""
        place = (path[-1] if path else "", key)
        if any(heading.endswith(("throttle reasons", "event reasons")) for heading in path):
            return self._take_reason(key, value)
        if name := NUMBERS.get(place):
            found = number(value)
        elif name := ANSWERS.get(place):
            found = affirmed(value)
        elif "volatile" in path and _is_uncorrectable(path, key):
            name, found = ECC_ERRORS, number(value)
            found = None if found is None else found + self.numbers.get(name, 0.0)
        else:
            return False
        if found is not None:
            self.numbers[name] = found
        return True

    def _take_reason(self, key: str, value: str) -> bool:
        answer = affirmed(value)
        if key not in REASONS or answer is None:
            return False
        self.reasons = self.reasons or set()
        self.reasons |= {REASONS[key]} if answer else set()
        return True


def _is_uncorrectable(path: list[str], key: str) -> bool:
    """Whether a counter is one of errors that ECC could not correct, as Volta, Ampere and Hopper cards name them."""
    return "uncorrectable" in key or ("double bit" in path and key == "total")


def read_report(lines: Iterable[tuple[int, str]], into: Telemetry, most: int) -> None:
    """Read the reports in a file, of one GPU after the other; cut ones too."""
    card, stack, now = _Card(), list[tuple[int, str]](), ""
    for line, text in lines:
        if address := GPU.match(text):
            _put(card, into, most, now)
            card, stack = _Card(gpu=address[1], line=line), []
            continue
        pair = PAIR.match(text)
        indent = len(text) - len(text.lstrip())
        key = (pair[2] if pair else text.strip()).lower()
        while stack and stack[-1][0] >= indent:
            stack.pop()
        if pair and key == "timestamp" and not stack:
            _put(card, into, most, now)
            card, now = _Card(), pair[3]
        elif pair and _is_of_use(card, line, [name for _, name in stack], (key, pair[3]), into):
            card.line = card.line or line
        stack.append((indent, key))
    _put(card, into, most, now)
    if not into.samples and not into.processes:
        into.unusable = "numbers below its headings"


def _is_of_use(card: _Card, line: int, path: list[str], pair: tuple[str, str], into: Telemetry) -> bool:
    """Take a line of a GPU or of one of its processes; whether it says anything that is asked for."""
    key, value = pair
    if "processes" in path or key in {"process id", "used gpu memory"}:
        _take_process(card, line, key, value, into)
        return False
    return card.take(path, key, value)


def _take_process(card: _Card, line: int, key: str, value: str, into: Telemetry) -> None:
    """Gather the lines of a process; the memory is the last one."""
    into.lists_processes = True
    if key == "process id":
        card.process = {}
    card.process[key] = value
    if key == "used gpu memory" and "process id" in card.process:
        told = card.process
        name = told.get("name", "")
        into.processes.append(Process(card.gpu, told["process id"], told.get("type", ""), name, line, number(value)))
        card.process = {}


def _put(card: _Card, into: Telemetry, most: int, time: str) -> None:
    if (card.numbers or card.reasons is not None) and len(into.samples) < most:
        reasons = None if card.reasons is None else frozenset(card.reasons)
        into.samples.append(Sample(card.gpu, card.line, card.numbers, reasons, time))
