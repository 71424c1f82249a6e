"""What does one line of a log say? Named numbers, each of training or of validation where the line tells."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

MEAN = " (mean)"
"""Ending of the key of a mean over the epoch, which some programs print in parentheses behind a value."""

FACTOR = {"ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0, "k": 1e3}


class Pair(NamedTuple):
    """One named number."""

    key: str
    value: float
    split: str = ""


@dataclass
class Row:
    """What one line says."""

    line: int
    pairs: list[Pair] = field(default_factory=list)
    batch: tuple[int, int] | None = None
    """Position within an epoch or a bar, and its length."""
    split: str = ""
    """What the line says of itself, for keys that do not say."""
    others: list[str] = field(default_factory=list)
    """Keys that mean nothing to us, which may still say what kind of training it is."""
    table: bool = False
    """Whether it is a row of a table, in which ``nan`` may stand for an empty cell."""
    stamp: str = ""
    """The date or time with which the line begins, as it is written."""
    run: str = ""
    """The run of which a row of a table tells, where it has a column for it."""


def number_of(text: str) -> float | None:
    """Return a number as programs write it: thousands separators, decimal commas, nan; None for anything else."""
    text = text.strip().strip("'\"")
    if "," in text:
        whole = re.fullmatch(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?", text)
        text = text.replace(",", "") if whole else text.replace(",", ".", 1)
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None


def factor_of(key: str, unit: str) -> float:
    """Return what makes seconds of a time, from its unit or from the unit in its name."""
    if not unit and re.search(r"[ _(/]ms\)?$", key):
        unit = "ms"
    return FACTOR.get(unit, 1.0)
