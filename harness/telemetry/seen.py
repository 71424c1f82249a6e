"""What was seen of one GPU, and in which numbers?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from harness.diagnose.finding import NO_BOUND, Evidence
from harness.telemetry.normal import MAX_SM_CLOCK, POWER, POWER_LIMIT, SM_CLOCK, TEMPERATURE, Gpu, Sample

MOSTLY = 0.5
"""Share from which a state is the usual one and not a passing one."""


@dataclass(frozen=True)
class Seen:
    """A fault of one GPU: how sure, what was seen, in numbers, and what to do about it."""

    gpu: str
    line: int
    confidence: float
    told: str
    evidence: list[Evidence]
    action: str


@dataclass(frozen=True)
class Fault:
    """A cause, how one sees it in the samples of a GPU, and whether these could show it."""

    cause: str
    judge: Callable[[Gpu, str], Seen | None]
    could_show: Callable[[Gpu], bool]
    needs: str
    confirm: str
    rivals: frozenset[str] = field(default_factory=frozenset)
    """Causes that explain the same: where one of them was found, this one is not asked."""


def with_reasons(samples: list[Sample], reasons: frozenset[str]) -> list[Sample]:
    """Return the samples that one of the reasons holds."""
    return [sample for sample in samples if sample.reasons and sample.reasons & reasons]


def number_of(sample: Sample, file: str, gpu: Gpu, name: str, unit: str, threshold: str = NO_BOUND) -> list[Evidence]:
    """Return a number of a sample as evidence; nothing where it is not known."""
    value = sample.get(name)
    return [] if value is None else [evidence_of(name, value, unit, threshold, f"{file}:{sample.line}, {gpu.label}")]


def evidence_of(name: str, value: float, unit: str, threshold: str, source: str) -> Evidence:
    """Return a number as evidence."""
    return Evidence(name=name, value=value, unit=unit, threshold=threshold, source=source)


def context_of(sample: Sample, file: str, gpu: Gpu) -> list[Evidence]:
    """Return clock, power and temperature of a sample, as far as they are known."""
    units = ((SM_CLOCK, "MHz"), (MAX_SM_CLOCK, "MHz"), (POWER, "W"), (POWER_LIMIT, "W"), (TEMPERATURE, "C"))
    return [evidence for name, unit in units for evidence in number_of(sample, file, gpu, name, unit)]
