"""What did a user give on the command line? Parts of a run and run folders, checked."""

from __future__ import annotations

from pathlib import Path

from harness.config import RunSpec
from harness.errors import UsageError
from harness.registry import did_you_mean
from harness.runs import Run, read_run
from harness.watch.records import PROCESSES, trained


def known_part(text: str, flag: str) -> str:
    """Return the field of the run spec that is meant, spelled as its flag or as its name."""
    name = text.strip().replace("-", "_")
    known = RunSpec.__struct_fields__
    if name not in known:
        near = did_you_mean(name, known)
        raise UsageError(f"{flag}: unknown part {text!r}{near}; known are: {', '.join(known)}")
    return name


def readable_run(folder: str) -> Run:
    """Return the run in a folder, of a watched command that of its first rank; UsageError when nothing can be read."""
    path = Path(folder)
    if (path / PROCESSES).is_dir():
        watched = trained(path)
        if not watched:
            raise UsageError(f"{folder}: no process of the watched command trained")
        return watched[0]
    run = read_run(path)
    if not any(rank.records for rank in run.ranks):
        raise UsageError(f"{folder}: no run folder: none of the {unusable_lines(run)} line(s) in it is a record")
    return run


def unusable_lines(run: Run) -> int:
    """Return the number of lines that could not be read."""
    return sum(rank.unusable_lines for rank in run.ranks)
