"""What did a user give on the command line? Parts of a run, run folders and known findings, checked."""

from __future__ import annotations

from pathlib import Path

from harness.cli.flags import Flags
from harness.config import RunSpec
from harness.diagnose.base import RULES
from harness.diagnose.diagnosis import INTEGRITY, UNKNOWN
from harness.diagnose.known import Known, read_known
from harness.errors import UsageError
from harness.logs.base import LOG_RULES
from harness.logs.regression import WORSE_THAN
from harness.registry import did_you_mean
from harness.runs import Run, read_run
from harness.telemetry.hardware import TELEMETRY_CAUSES
from harness.watch.records import PROCESSES, trained


def known_part(text: str, flag: str) -> str:
    """Return the field of the run spec that is meant, spelled as its flag or as its name."""
    name = text.strip().replace("-", "_")
    known = RunSpec.__struct_fields__
    if name not in known:
        near = did_you_mean(name, known)
        raise UsageError(f"{flag}: unknown part {text!r}{near}; known are: {', '.join(known)}")
    return name


def add_known(parser: Flags, effect: str) -> None:
    """Add the flag for findings that were judged harmless."""
    told = f"a line for each finding that is no fault, as CAUSE at FILE: REASON; {effect}"
    parser.add_argument("--known", metavar="FILE", help=told)


def known_findings(path: str | None) -> list[Known]:
    """Return the findings that somebody judged harmless."""
    return (
        read_known(
            Path(path), {*RULES.names(), *LOG_RULES.names(), *TELEMETRY_CAUSES, UNKNOWN, WORSE_THAN} - {INTEGRITY}
        )
        if path
        else []
    )


def readable_run(folder: str) -> Run:
    """Return the run in a folder, of a watched command that of its first rank; UsageError when nothing can be read."""
    path = Path(folder)
    if is_watched(path):
        return watched_runs(path)[0]
    run = read_run(path)
    if not any(rank.records for rank in run.ranks):
        raise UsageError(f"{folder}: no run folder: none of the {unusable_lines(run)} line(s) in it is a record")
    return run


def is_watched(folder: Path) -> bool:
    """Tell whether ``gpu-exam watch`` left this folder."""
    return (folder / PROCESSES).is_dir()


def watched_runs(folder: Path) -> list[Run]:
    """Return the run of each process of a watched command; UsageError when none trained."""
    if not (watched := trained(folder)):
        raise UsageError(f"{folder}: no process of the watched command trained")
    return watched


def unusable_lines(run: Run) -> int:
    """Return the number of lines that could not be read."""
    return sum(rank.unusable_lines for rank in run.ranks)
