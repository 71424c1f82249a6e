"""What does a diagnosis say? The finding, the evidence that decided it, and the four statuses."""

from __future__ import annotations

from typing import Literal

import msgspec

Category = Literal[
    "precision",
    "input_pipeline",
    "communication",
    "kernel_efficiency",
    "host_overhead",
    "straggler",
    "sharding",
    "memory",
    "generalisation",
    "hardware",
]
Status = Literal["diagnosed", "healthy", "inconclusive", "not_enough_evidence"]


NO_BOUND = "none, for context"
"""Stands where another observation has the bound that it crossed."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One observation that decided a finding."""

    name: str
    value: float | str
    unit: str
    threshold: str
    """The condition that the value meets, as text: ``>= 0.05``; or that it has none and is told for context."""
    source: str
    """Where the value was read: a run folder and step, a module, a file and line."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One cause, with what decided it and what to do about it."""

    category: Category
    cause: str
    """A snake_case id, or ``unknown`` when no rule knows the cause."""
    confidence: float
    """0 to 1: how surely the evidence separates this cause from the others."""
    evidence: list[Evidence]
    confirm: str
    """The cheapest experiment that would confirm it."""
    action: str
    """What to change, in the user's own terms."""
    summary: str = ""
    """What was seen and what it means, in one or two sentences."""
    place: str = ""
    """Where the fault is, as file:line, when that is known."""


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """An observation that a rule needed and did not have, and the command that would produce it."""

    observation: str
    needed_for: str
    command: str


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Ranked findings and the overall status."""

    status: Status
    findings: list[Finding] = []
    missing: list[Missing] = []
    checked: list[str] = []
    """The causes whose rule had all the evidence that it needs."""
    known: list[Finding] = []
    """Findings that somebody judged harmless before; they do not count."""
