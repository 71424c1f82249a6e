"""What did the processes of a watched command leave behind?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from harness.runs import MAX_RANKS, Run, read_run

PROCESSES = "processes"
"""Folder of the records, one folder for each process that trained."""


ENDED = "ended.json"
"""How the command ended, beside the records of its processes."""


def write_ended(out: Path, code: int) -> None:
    """Keep the exit code of the command."""
    (out / ENDED).write_text(json.dumps({"exit_code": code}) + "\n", encoding="ascii")


def trained(out: Path) -> list[Run]:
    """Return the run of each process that started a backward pass or took a step of an optimizer, by rank.

    A process that left no last record, as one that its parent ends, did what it had to when the command ended well.
    """
    folders = sorted((out / PROCESSES).glob("rank*-process*"), key=_rank_of)
    runs = [read_run(folder) for folder in folders]
    return [_completed(run) for run in runs] if _ended_well(out) else runs


def silent_ranks(runs: list[Run]) -> list[int]:
    """Return the ranks of a job that left no record."""
    num_ranks = max((n for run in runs if isinstance(n := run.start.get("num_ranks"), int)), default=1)
    return sorted(set(range(min(num_ranks, MAX_RANKS))) - {rank.rank for run in runs for rank in run.ranks})


def _rank_of(folder: Path) -> tuple[int, str]:
    rank = folder.name.removeprefix("rank").partition("-")[0]
    return int(rank) if rank.isdecimal() else 0, folder.name


def _ended_well(out: Path) -> bool:
    try:
        found = json.loads((out / ENDED).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("exit_code") == 0


def _completed(run: Run) -> Run:
    """Return a run whose processes have a last record."""
    end = {"event": "end", "state": "completed"}
    ranks = [rank if rank.of("end") else replace(rank, records=[*rank.records, end]) for rank in run.ranks]
    return replace(run, ranks=ranks)


def notes(out: Path) -> list[str]:
    """Return why a process could not be observed, each reason once."""
    files = sorted((out / PROCESSES).glob("note-*.txt"))
    return list(dict.fromkeys(line for file in files for line in file.read_text(encoding="utf-8").splitlines()))
