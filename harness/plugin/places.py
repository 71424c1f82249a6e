"""Where is each cause shown? The places of a session: cause x workload x device kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.config import RunSpec, changed
from harness.exam.incident import BASE, USER_BASE, Incident
from harness.exam.keys import Key, load_keys
from harness.experiment.store import RunStore
from harness.plugin.options import Options


@dataclass(frozen=True)
class Place:
    """One cause on one workload and device kind."""

    key: Key
    workload: str
    device: str
    overrides: dict[str, Any] = field(default_factory=dict, compare=False, hash=False)

    def __str__(self) -> str:
        return f"{self.key.cause}-{short(self.workload)}-{self.device}"

    @property
    def scenario(self) -> str:
        """The scenario's id."""
        return self.key.scenario

    @property
    def cause(self) -> str:
        """The cause's id."""
        return self.key.cause

    def incident(self, store: RunStore) -> Incident:
        """Return the incident that is shown here."""
        return Incident(self.key, self.workload, self.device, store, self.overrides)

    def runs(self, store: RunStore) -> list[tuple[RunSpec, int]]:
        """Return every run that proving this place needs, in the order of need; none when it cannot be shown."""
        incident = self.incident(store)
        return [] if incident.impossible else incident.runs()


@dataclass(frozen=True)
class BasePlace:
    """A healthy run of one workload on one device kind."""

    scenario: str
    workload: str
    device: str
    overrides: dict[str, Any] = field(default_factory=dict, compare=False, hash=False)
    cause: str = "baseline"

    def __str__(self) -> str:
        return f"{short(self.workload)}-{self.device}"

    def spec(self) -> RunSpec:
        """Return the run."""
        base = BASE.get(self.workload, USER_BASE) | self.overrides
        return changed(RunSpec(), base | {"workload": self.workload, "device": self.device}, "session options")

    def runs(self, _store: RunStore) -> list[tuple[RunSpec, int]]:
        """Return the run and its repetition."""
        return [(self.spec(), 0), (self.spec(), 1)]


def base_places(scenario: str, options: Options) -> Iterator[BasePlace]:
    """Yield one place for each workload and device kind."""
    for workload in [options.workload] if options.workload else BASE:
        for kind in options.kinds:
            yield BasePlace(scenario, workload, kind, options.overrides)


def places(scenario: str, options: Options) -> Iterator[Place]:
    """Yield the places of a scenario; a user's workload takes the place of the built-in ones."""
    for key in load_keys(scenario):
        for workload in [options.workload] if options.workload else key.workloads:
            for kind in options.kinds:
                yield Place(key, workload, kind, options.overrides)


def short(workload: str) -> str:
    """Return a workload's name without its folder, of letters that are safe in an id, a file name and a page."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", workload.rpartition("/")[2].replace(".py:", "."))
