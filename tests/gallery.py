"""Every incident of every answer key, executed once per test session and shared by all its processes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from harness.config import RunSpec, changed
from harness.exam.incident import Incident
from harness.exam.keys import FOLDER, Key, load_keys
from harness.experiment.store import RunStore

SCENARIOS = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())

TINY: dict[str, Any] = {"size": "tiny", "max_steps": 20, "val_interval": 10, "device": "cpu", "observe": "full"}
"""A run of a fraction of a second."""


@cache
def keys() -> dict[str, Key]:
    """Return all answer keys by cause."""
    return {key.cause: key for scenario in SCENARIOS for key in load_keys(scenario)}


def places() -> list[Any]:
    """Return every (cause, workload) of the answer keys, as parameters of a test."""
    found = [(cause, workload) for cause, key in keys().items() for workload in key.workloads]
    return [pytest.param(cause, workload, id=f"{cause}-{workload}") for cause, workload in found]


def shared_store(factory: pytest.TempPathFactory, name: str = "gallery") -> RunStore:
    """Return the runs of this session; under xdist all workers have them in common, and a lock keeps each to one."""
    base = factory.getbasetemp()
    return RunStore((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name)


def incident(cause: str, workload: str, store: RunStore) -> Incident:
    """Return an incident on the CPU as its answer key describes it."""
    return Incident(keys()[cause], workload, "cpu", store)


def tiny(**changes: Any) -> RunSpec:
    """Return a tiny run with some fields of its own."""
    return changed(RunSpec(), TINY | changes)


@dataclass
class SevereIncident(Incident):
    """An incident whose fault has a severity of its own."""

    severity: float = 1.0

    @property
    def suspect_spec(self) -> RunSpec:
        """The run with the fault at this severity."""
        return changed(self.control_spec, {"fault": f"{self.key.cause}:{self.severity:g}"})
