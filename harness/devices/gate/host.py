"""What does the integrity gate look at? One snapshot of the host, on which every check is a pure function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.observe.gpu_state import GpuState
from harness.observe.outcome import GateCheck

GateKind = Literal["cpu", "cuda", "emulated"]


@dataclass(frozen=True, kw_only=True)
class Host:
    """The state of the host when the gate looked."""

    kind: GateKind
    devices: int
    """How many the caller needs at least."""
    out_folder: Path
    environ: Mapping[str, str]
    gpus: Sequence[GpuState] = ()
    """The visible GPUs; all of them are checked, because a lease may hand out any of them."""
    nvml_reason: str = ""
    """Why there is no NVML; empty when there is."""
    leased: bool = False
    """Whether the devices are held for the time of the checks."""
    lease_problem: str = ""
    """Why they are not, when it was tried."""


def check(name: str, problem: str, *, observed: str, expected: str, remedy: str) -> GateCheck:
    """Return PASSED with what was observed, or FAILED with the problem and the remedy when there is a problem."""
    if problem:
        return GateCheck(name=name, outcome="FAILED", observed=problem, expected=expected, remedy=remedy)
    return GateCheck(name=name, outcome="PASSED", observed=observed, expected=expected)


def blocked(name: str, by: Sequence[str], expected: str) -> GateCheck:
    """Return BLOCKED by the checks that failed before."""
    return GateCheck(name=name, outcome="BLOCKED", observed=f"blocked by: {', '.join(by)}", expected=expected)
