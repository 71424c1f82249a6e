"""What is a fault? A seeded change to exactly one named part of a run; the train loop knows nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from harness.config import RunSpec
from harness.errors import UsageError
from harness.registry import Registry

Part = Literal[
    "spec",
    "model",
    "loss",
    "optimizer",
    "autocast",
    "scaler",
    "update",
    "schedule",
    "validation",
    "checkpoint",
    "batches",
]


@dataclass(frozen=True)
class Context:
    """What a fault may look at when it changes its part."""

    spec: RunSpec
    severity: float


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault: the part that it changes, and the observation that it is declared to move."""

    part: Part
    change: Callable[[Any, Context], Any]
    """Gets the healthy part, returns the faulty one; part ``spec`` gets and returns the RunSpec."""
    observation: str
    """The observation that moves."""
    direction: Literal["up", "down"]
    bound: float
    """The observation is beyond this value with the fault and within it without."""
    bound_origin: str
    """Where the bound comes from."""
    severity: float = 1.0
    """The default severity; what it means is the fault's own docstring."""


MAX_SEVERITY = 100.0
"""Severities are factors or powers of two; 2**100 is far beyond every 16-bit format and within fp32."""

FAULTS: Registry[Fault] = Registry("fault", "harness.faults", "FAULT")


@dataclass(frozen=True)
class Injection:
    """The fault of one run, or none."""

    fault: Fault | None
    severity: float

    def apply(self, part: Part, value: Any, spec: RunSpec) -> Any:
        """Return the part, changed if it is the one that the fault changes."""
        if self.fault is None or self.fault.part != part:
            return value
        return self.fault.change(value, Context(spec, self.severity))


def injection(text: str) -> Injection:
    """Read ``NAME`` or ``NAME:SEVERITY``; the empty text is no fault."""
    if not text:
        return Injection(None, 0.0)
    name, colon, severity = text.partition(":")
    fault = FAULTS.load(name)
    try:
        value = float(severity) if colon else fault.severity
    except ValueError:
        value = float("nan")
    if not abs(value) <= MAX_SEVERITY:
        raise UsageError(f"--fault: the severity must be a number of at most {MAX_SEVERITY:g}, got {severity!r}")
    return Injection(fault, value)
