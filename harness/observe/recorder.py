"""What does a run leave behind? One JSONL file per rank; each printed line is the text form of its record."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from harness.errors import HarnessError, UsageError
from harness.observe.clock import utc_now

FORMATS: dict[str, Callable[[dict[str, Any]], str]] = {
    "step": lambda r: f"step={r['step']} loss={_number(r['loss'])} throughput={_number(r['throughput'])} {r['unit']}",
    "validation": lambda r: (
        f"epoch={r['epoch']} step_time={_number(r['step_time'])} val_metric={_number(r['val_metric'])}"
    ),
    "scaling": lambda r: f"n={r['devices']} {_number(r['samples_per_s'])} samples/s",
}
"""The records that are printed, and how."""


class OutputClosedError(HarnessError):
    """Nobody reads the printed lines any more, as after ``train.py | head``."""


class Recorder:
    """Appends records to ``rank<N>.jsonl``; rank 0 prints those that have a text form."""

    def __init__(self, folder: Path, rank: int) -> None:
        path = folder / f"rank{rank}.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.file: IO[bytes] = path.open("xb", buffering=0)
        except FileExistsError as error:
            raise UsageError(f"--out {folder}: it already holds a run; name a folder that does not") from error
        except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"--out {folder}: cannot be written: {reason}") from error
        self.echo = rank == 0

    def write(self, event: str, **values: Any) -> None:
        """Write one record without a buffer: what happened stays known when the process dies."""
        record = {"event": event, "time": utc_now(), **values}
        try:
            left = _line(record)
            while left:  # a disk that is almost full takes a part
                left = left[self.file.write(left) :]
        except OSError as error:
            raise HarnessError(f"{self.file.name} cannot be written: {error.strerror}") from error
        if self.echo and event in FORMATS:
            _print(FORMATS[event](record))

    def close(self) -> None:
        """Close the file; what a full disk did not take is lost, and was said."""
        with contextlib.suppress(OSError):
            self.file.close()


def _line(record: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(record, allow_nan=False)
    except ValueError:  # a number that is not finite
        text = json.dumps(standard(record))
    return text.encode() + b"\n"


def _print(line: str) -> None:
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except OSError as error:
        # Whatever is still in the buffer would fail again when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise OutputClosedError("standard output was closed by its reader") from error
        raise HarnessError(f"standard output cannot be written: {error.strerror}") from error


def complain(text: str) -> None:
    """Say on standard error what a record may not be able to say; that nobody reads it is no second error."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{text}\n")


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
    try:
        return float(value)
    except OverflowError:
        return None


def _number(value: float) -> str:
    return f"{value:.6g}"
