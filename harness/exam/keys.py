"""What is the right answer to an incident? The answer keys: data only, one YAML per cause."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

from harness.config import RunSpec, changed
from harness.diagnose.finding import Category
from harness.errors import UsageError
from harness.faults.base import Part
from harness.observe.environment import PROJECT
from harness.strict_yaml import read_yaml, typed

FOLDER = PROJECT / "answer_keys"

PARTS: tuple[str, ...] = get_args(Part)


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change to a run: a part made right again, or fields of the run set."""

    why: str
    """What this change shows or repairs, in one line."""
    part: str = ""
    """The part that is put back as it should be; a fault in it is gone, a fault elsewhere stays."""
    set: dict[str, Any] = {}
    """Fields of the run spec with their new values."""

    @property
    def label(self) -> str:
        """What is changed, in a few words."""
        return f"{self.part} put right" if self.part else ", ".join(f"{name}={v}" for name, v in self.set.items())


class Marks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What each part of an answer is worth."""

    diagnosis: Annotated[int, Meta(ge=0)]
    evidence: Annotated[int, Meta(ge=0)]
    remedy: Annotated[int, Meta(ge=0)]


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer key of one cause."""

    scenario: str
    cause: str
    category: Category
    title: str
    story: str
    """What somebody on the job would report, without the cause."""
    accepts: list[str]
    """Causes that count as the right diagnosis."""
    suspect: dict[str, Any]
    """Fields of the run in which the incident happens; the healthy twin has the same."""
    workloads: dict[str, dict[str, Any]]
    """Built-in workloads on which it is shown, with the fields that each needs."""
    required_evidence: list[str]
    confirm: Change
    remedies: list[Change]
    cheats: list[Change]
    """Changes that look like a fix and must not be accepted."""
    marks: Marks
    tolerance: Annotated[float, Meta(gt=0, lt=1)] = 0.02
    """Largest relative loss of the validation metric against the healthy twin after a remedy."""


def load_key(path: Path) -> Key:
    """Read one key; every mistake is a UsageError that names the file and the place in it."""
    key = typed(read_yaml(path), Key, str(path))
    if (key.scenario, key.cause) != (path.parent.name, path.stem):
        raise UsageError(f"{path}: is for {key.scenario}/{key.cause}; file and folder must have these names")
    for place, change in _changes(key).items():
        if bool(change.part) == bool(change.set):
            raise UsageError(f"{path}: {place}: a change needs exactly one of 'part' and 'set': {change.why!r}")
        if change.part and change.part not in PARTS:
            raise UsageError(f"{path}: {place}.part: got {change.part!r}, accepted are {', '.join(PARTS)}")
        changed(RunSpec(), change.set, f"{path}: {place}.set")
    for workload, own in key.workloads.items():
        changed(RunSpec(), key.suspect | own, f"{path}: suspect with workloads.{workload}")
    if key.cause not in key.accepts:
        raise UsageError(f"{path}: accepts must contain the cause {key.cause!r}")
    return key


def _changes(key: Key) -> dict[str, Change]:
    """Return every change of a key by its place in the file."""
    listed = {"remedies": key.remedies, "cheats": key.cheats}
    many = {f"{name}[{i}]": change for name, changes in listed.items() for i, change in enumerate(changes)}
    return {"confirm": key.confirm, **many}


def load_keys(scenario: str, folder: Path = FOLDER) -> list[Key]:
    """Read all keys of a scenario, in the order of their names."""
    return [load_key(path) for path in sorted((folder / scenario).glob("*.yaml"))]
