"""How is a report kept? ``results.json`` first and whole, then the page; neither is ever seen half-written."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import UsageError
from harness.report.model import Results
from harness.report.words import NOT_FINITE


def encode(results: Results) -> bytes:
    """Return ``results.json``: strict JSON in which a not-finite number is null, or words where text may stand."""
    plain = _portable(msgspec.to_builtins(results, enc_hook=str, str_keys=True))
    return msgspec.json.encode(plain) + b"\n"


def read_results(path: Path) -> Results:
    """Return what ``encode`` wrote; raise UsageError when the file is unreadable or is not a results.json."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Results)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not a results.json of this version: {error}") from error


def replace_file(path: Path, content: bytes) -> None:
    """Write a file in one step; raise UsageError when the folder cannot be written."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


_TEXT_OR_NUMBER = frozenset({"observed", "value"})
"""Fields that may hold text: there, not finite is told apart from missing."""


def _portable(value: Any, field: str = "") -> Any:
    """Return plain data that is valid JSON and UTF-8 whatever a user's run put into it."""
    if isinstance(value, dict):
        return {_portable(key): _portable(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_portable(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, float) and not math.isfinite(value):
        return NOT_FINITE if field in _TEXT_OR_NUMBER else None
    return value
