"""What is in a report? The typed form of ``results.json``, from which the page is drawn."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from harness.diagnose.finding import Diagnosis
from harness.observe.outcome import Gate, Outcome

Series = list[tuple[int, float | None]]
"""(step, value) points; None where the value was not finite."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One planned check and how it ended: a row of the report."""

    id: str
    scenario: str
    cause: str
    workload: str
    device: str
    invariant: str
    title: str
    outcome: Outcome
    reason: str = ""
    expected: str = ""
    low: float | None = None
    high: float | None = None
    observed: float | str | None = None
    unit: str = ""
    seconds: float = 0.0
    evidence: list[int] = []
    """``seq`` of the evidence records behind this row."""
    commands: list[str] = []


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """One run as the report shows it."""

    role: str
    """reference, control, suspect, confirm, remedy or cheat."""
    label: str
    command: str
    state: str
    precision: str
    device: str
    val_metric: float | None = None
    metric_name: str = ""
    metric_goal: Literal["max", "min"] = "max"
    step_time_s: float | None = None
    throughput: float | None = None
    is_timed: bool = True
    """Whether it had its device to itself: otherwise its times tell roughly how fast it was, and no more."""
    unit: str = "samples/s"
    peak_memory_bytes: int | None = None
    loss: Series = []
    val: Series = []
    loss_scale: Series = []
    grad_norm: Series = []
    skipped_steps: list[int] = []


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario x cause x workload x device: its story, its runs and what was diagnosed."""

    scenario: str
    cause: str
    category: str
    workload: str
    device: str
    title: str
    story: str
    runs: list[RunView] = []
    diagnosis: Diagnosis | None = None


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one session found."""

    schema: int = 1
    trust: str = "SELF-RUN"
    command: str
    started: str
    ended: str
    environment: dict[str, Any]
    gate: Gate | None
    planned: int
    executed: int
    gpu_planned: int
    gpu_executed: int
    checks: list[Check]
    incidents: list[Incident]
    confusion: dict[str, dict[str, int]]
    """truth (a cause, or ``healthy``) -> diagnosed first cause or status -> number of runs."""
    evidence_records: int = 0
    evidence_head: str = ""
