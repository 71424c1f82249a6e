"""What does telemetry of GPUs say, whoever printed it? Samples and processes in one form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

UTILISATION = "utilisation"
"""Percent of the time in which a kernel ran."""
MEMORY_USED, MEMORY_TOTAL = "memory_used", "memory_total"
"""MiB."""
POWER, POWER_LIMIT, DEFAULT_LIMIT = "power", "power_limit", "default_power_limit"
"""W."""
TEMPERATURE = "temperature"
"""Celsius."""
SM_CLOCK, MAX_SM_CLOCK = "sm_clock", "max_sm_clock"
"""MHz."""
PCIE_GEN, PCIE_GEN_MAX, PCIE_WIDTH, PCIE_WIDTH_MAX = "pcie_gen", "pcie_gen_max", "pcie_width", "pcie_width_max"
ECC_ERRORS = "uncorrected_ecc_errors"
"""Uncorrected errors since the driver was loaded."""
ECC_LIFETIME = "uncorrected_ecc_errors_lifetime"
"""The same over the life of the card: only their growth says something about now."""
REPAIR_PENDING, REPAIR_FAILED, RESET_NEEDED = "memory_repair_pending", "memory_repair_failed", "reset_needed"
"""1 for yes: rows or pages that wait for a reset to be replaced; none left to replace them; a card to be reset."""
POWER_VIOLATION = "power_violation"
"""Percent of the time in which the power limit held the clocks down."""
MIG = "mig"
"""1 where the card is cut into instances: it has no utilisation of its own."""

IDLE, APPLICATION_CLOCKS, POWER_CAP, HW_SLOWDOWN, SYNC_BOOST, SW_THERMAL, HW_THERMAL, POWER_BRAKE, DISPLAY = (
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "display_clocks_setting",
)

REASON_BITS = {
    0x001: IDLE,
    0x002: APPLICATION_CLOCKS,
    0x004: POWER_CAP,
    0x008: HW_SLOWDOWN,
    0x010: SYNC_BOOST,
    0x020: SW_THERMAL,
    0x040: HW_THERMAL,
    0x080: POWER_BRAKE,
    0x100: DISPLAY,
}
"""Origin: the nvmlClocksEventReason* bits of nvml.h."""


@dataclass(frozen=True)
class Sample:
    """One GPU at one time."""

    gpu: str
    """Its number or address as the file has it; empty where the file does not say which one it is."""
    line: int
    numbers: dict[str, float]
    reasons: frozenset[str] | None = None
    """What holds the clocks down; None where the file does not say."""
    time: str = ""

    def get(self, name: str) -> float | None:
        """Return a number; None where it is not known."""
        return self.numbers.get(name)


@dataclass(frozen=True)
class Process:
    """A process on a GPU."""

    gpu: str
    pid: str
    kind: str
    """C computes, G draws, C+G both; empty where the file does not say."""
    name: str
    line: int
    memory: float | None = None
    """MiB."""


@dataclass(frozen=True)
class Gpu:
    """The samples of one GPU, in the order of the file."""

    name: str
    samples: list[Sample]

    @property
    def label(self) -> str:
        """How a person calls it."""
        return f"GPU {self.name}" if self.name else "the GPU"

    def has(self, *names: str) -> bool:
        """Whether some sample holds all these numbers."""
        return any(all(name in sample.numbers for name in names) for sample in self.samples)


@dataclass
class Telemetry:
    """What one file says."""

    file: str
    kind: str
    """The program that printed it, as a user would call it."""
    samples: list[Sample] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    lists_processes: bool = False
    """Whether the file would tell of processes, if there were some."""
    unusable: str = ""
    """Why nothing can be read from it, although it is telemetry; empty where something can."""
    unread_lines: int = 0
    """Lines that look like samples and could not be read."""

    def gpus(self) -> list[Gpu]:
        """Return the samples by GPU."""
        by_gpu: dict[str, list[Sample]] = {}
        for sample in self.samples:
            by_gpu.setdefault(sample.gpu, []).append(sample)
        return [Gpu(name, samples) for name, samples in by_gpu.items()]


def reasons_of(mask: int) -> frozenset[str]:
    """Return the reasons in a bit mask of NVML."""
    return frozenset(name for bit, name in REASON_BITS.items() if mask & bit)


def number(text: str) -> float | None:
    """Return the number at the beginning of a cell, whatever its unit; None for ``[N/A]``, ``-`` and the like."""
    word = text.strip().split(" ")[0].rstrip("%CWxX")
    try:
        value = float(word if word.count(",") != 1 or "." in word else word.replace(",", "."))
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def affirmed(text: str) -> float | None:
    """Return 1 for yes, 0 for no; None where neither is said."""
    return {"yes": 1.0, "active": 1.0, "enabled": 1.0, "no": 0.0, "not active": 0.0, "disabled": 0.0}.get(
        text.strip().lower()
    )


def mean(values: Iterable[float]) -> float | None:
    """Return the mean; None of nothing."""
    known = list(values)
    return sum(known) / len(known) if known else None
