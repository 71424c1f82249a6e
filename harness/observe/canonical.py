"""Which bytes stand for a value? One JSON text per value, in the standard that every tool reads."""

from __future__ import annotations

import hashlib
import json
from pathlib import PurePath
from typing import Any

import msgspec

from harness.observe.recorder import standard


def plain(value: object) -> Any:
    """Return ``value`` as JSON data; numbers that are not finite become the texts ``nan``, ``inf`` and ``-inf``.

    Structs and dataclasses become dicts, paths text, scalars of numpy and torch numbers; TypeError for anything else.
    """
    return standard(msgspec.to_builtins(value, str_keys=True, order="deterministic", enc_hook=_known))


def canonical(value: object) -> bytes:
    """Return the one JSON text of plain data: sorted keys, no spaces, ASCII; ValueError for NaN and infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def digest(value: object) -> str:
    """Return the SHA-256 of the canonical JSON of plain data, as 64 hex digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def _known(value: Any) -> Any:
    if isinstance(value, PurePath):
        return value.as_posix()
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")
