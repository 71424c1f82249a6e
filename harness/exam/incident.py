"""What is one incident? A cause on a workload and a device, and the runs that prove it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from harness.config import RunSpec, changed
from harness.diagnose.diagnosis import diagnose
from harness.diagnose.finding import Diagnosis
from harness.diagnose.observations import Observations
from harness.errors import UsageError
from harness.exam.keys import Change, Key
from harness.experiment.store import RunStore
from harness.faults.base import FAULTS, Fault
from harness.runs import Run

BASE: dict[str, dict[str, Any]] = {
    "digits_mlp": {"size": "tiny", "max_steps": 100, "val_interval": 50},
    "digits_cnn": {"size": "tiny", "max_steps": 100, "val_interval": 50, "lr": 3e-3},
    "byte_lm": {"size": "tiny", "batch_size": 8, "max_steps": 60, "val_interval": 30, "lr": 3e-3},
}
"""The run of each built-in workload in a scenario: the smallest that shows every fault, one second or less
on one core."""

USER_BASE: dict[str, Any] = {"max_steps": 100, "val_interval": 50}
"""The run of a user's own workload; a configuration file can say otherwise."""


@dataclass
class Incident:
    """One cause on one workload and device; runs are executed when first asked for."""

    key: Key
    workload: str
    device: str
    store: RunStore
    overrides: dict[str, Any] = field(default_factory=dict)
    """What the session sets for every run: seed, a configuration file."""

    @cached_property
    def fault(self) -> Fault:
        """The fault that is injected."""
        return FAULTS.load(self.key.cause)

    @cached_property
    def control_spec(self) -> RunSpec:
        """The healthy twin: everything as in the incident, without the fault."""
        name = f"answer key {self.key.cause}"
        base = BASE.get(self.workload, USER_BASE) | self.overrides
        own = self.key.workloads.get(self.workload, {})
        given = {"workload": self.workload, "device": self.device, "observe": "full"}
        return changed(RunSpec(), base | self.key.suspect | own | given, name)

    @property
    def suspect_spec(self) -> RunSpec:
        """The run with the fault."""
        return changed(self.control_spec, {"fault": self.key.cause})

    @property
    def reference_spec(self) -> RunSpec:
        """The fp32 run that the incident is compared with."""
        return changed(self.control_spec, {"precision": "fp32"})

    @cached_property
    def impossible(self) -> str:
        """Why the runs of this incident cannot even be described, or an empty text.

        A user's settings may contradict what a cause needs: a restart at step 40 in a run of 20 steps.
        """
        try:
            self.runs()
        except UsageError as error:
            return str(error)
        return ""

    def runs(self) -> list[tuple[RunSpec, int]]:
        """Return every run that proving the incident needs, with which execution of it, in the order of need."""
        changes = (self.key.confirm, *self.key.remedies, *self.key.cheats)
        first = [self.reference_spec, self.control_spec, self.suspect_spec]
        return [(spec, 0) for spec in first] + [(self.spec_after(c), self.repeat_of(c)) for c in changes]

    def spec_after(self, change: Change) -> RunSpec:
        """Apply a change to the suspect: putting the faulty part right removes the fault, any other part does not."""
        if change.part:
            return self.control_spec if change.part == self.fault.part else self.suspect_spec
        return changed(self.suspect_spec, change.set, f"answer key {self.key.cause}")

    @property
    def reference(self) -> Run:
        """The executed fp32 reference."""
        return self.store.get(self.reference_spec)

    @property
    def control(self) -> Run:
        """The executed healthy twin."""
        return self.store.get(self.control_spec)

    @property
    def suspect(self) -> Run:
        """The executed run with the fault."""
        return self.store.get(self.suspect_spec)

    def after(self, change: Change) -> Run:
        """The suspect executed again with one change.

        With its faulty part put right it has the healthy twin's spec: it is executed once more, not looked up.
        """
        return self.store.get(self.spec_after(change), repeat=self.repeat_of(change))

    def repeat_of(self, change: Change) -> int:
        """Return which execution of the changed spec is meant: the second where the first is the healthy twin."""
        return 1 if change.part == self.fault.part else 0

    def observe(self, run: Run) -> Observations:
        """Return the observations of a run against the reference."""
        return Observations(run, self.reference)

    def observed(self, run: Run) -> float | None:
        """Return the observation that the fault is declared to move."""
        return self.observe(run).number(self.fault.observation)

    def diagnose(self, run: Run) -> Diagnosis:
        """Diagnose a run from its records and the reference alone."""
        return diagnose(self.observe(run))
