"""What did the processes of a watched command leave behind?"""

from __future__ import annotations

from pathlib import Path

from harness.runs import Run, read_run

PROCESSES = "processes"
"""Folder of the records, one folder for each process that trained."""


def trained(out: Path) -> list[Run]:
    """Return the run of each process that started a backward pass or took a step of an optimizer, by rank."""
    folders = sorted((out / PROCESSES).glob("rank*-process*"), key=lambda folder: folder.name)
    return [read_run(folder) for folder in folders]


def notes(out: Path) -> list[str]:
    """Return why a process could not be observed, each reason once."""
    files = sorted((out / PROCESSES).glob("note-*.txt"))
    return list(dict.fromkeys(line for file in files for line in file.read_text(encoding="utf-8").splitlines()))
