"""What does a run leave behind? One JSONL file per rank; each printed line is the text form of its record."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from harness.errors import UsageError
from harness.observe.clock import utc_now

FORMATS: dict[str, Callable[[dict[str, Any]], str]] = {
    "step": lambda r: f"step={r['step']} loss={_number(r['loss'])} throughput={_number(r['throughput'])} {r['unit']}",
    "validation": lambda r: (
        f"epoch={r['epoch']} step_time={_number(r['step_time'])} val_metric={_number(r['val_metric'])}"
    ),
    "scaling": lambda r: f"n={r['devices']} {_number(r['samples_per_s'])} samples/s",
}
"""The records that are printed, and how."""


class Recorder:
    """Appends records to ``rank<N>.jsonl``; rank 0 prints those that have a text form."""

    def __init__(self, folder: Path, rank: int) -> None:
        path = folder / f"rank{rank}.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.file: IO[str] = path.open("x", encoding="utf-8")
        except FileExistsError as error:
            raise UsageError(f"--out {folder}: it already holds a run; name a folder that does not") from error
        except OSError as error:
            raise UsageError(f"--out {folder}: cannot be written: {error.strerror}") from error
        self.echo = rank == 0

    def write(self, event: str, **values: Any) -> None:
        """Write one record and flush it: what happened stays known when the process dies."""
        record = {"event": event, "time": utc_now(), **values}
        self.file.write(json.dumps(standard(record)) + "\n")
        self.file.flush()
        if self.echo and event in FORMATS:
            sys.stdout.write(FORMATS[event](record) + "\n")
            sys.stdout.flush()

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def standard(value: Any) -> Any:
    """Return the value with non-finite numbers as the texts nan, inf and -inf: JSON has no such numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: standard(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [standard(item) for item in value]
    return value


def number(value: Any) -> float | None:
    """Return what ``standard`` wrote as a float again; None for anything that is no number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str) and value not in {"nan", "inf", "-inf"}:
        return None
    return float(value)


def _number(value: float) -> str:
    return f"{value:.6g}"
