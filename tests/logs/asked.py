"""Asks the diagnosis about a text, as a file."""

from __future__ import annotations

from pathlib import Path

from harness.diagnose.finding import Diagnosis
from harness.logs.diagnosis import diagnose_log
from harness.logs.normal import Log
from harness.logs.pairs import Row
from harness.logs.read import read_log
from harness.logs.shapes import shape_of


def written(folder: Path, text: str | bytes, name: str = "train.log") -> Path:
    """Return a file with this text."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def row_of(text: str) -> Row:
    """Return what one line says."""
    return shape_of(text).row(1, text)


def log_of(folder: Path, text: str | bytes) -> Log:
    """Return the text as it is read."""
    return read_log(written(folder, text))


def diagnosis_of(folder: Path, text: str | bytes) -> Diagnosis:
    """Return what is said about the text."""
    return diagnose_log(log_of(folder, text))


def causes_of(folder: Path, text: str | bytes) -> list[str]:
    """Return the causes that are found, the status where none is."""
    found = diagnosis_of(folder, text)
    return [finding.cause for finding in found.findings] or [found.status]
