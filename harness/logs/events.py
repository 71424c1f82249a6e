"""Which lines tell of a skipped step or of a lost loss in words? DeepSpeed, apex, fairseq: each has its own."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = r"(\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)"

REDUCED = (
    re.compile(rf"loss scaler (?P<who>\d+) reducing loss scale to {_NUMBER}", re.IGNORECASE),
    re.compile(
        rf"OVERFLOW!?\s*(?:Rank (?P<who>\d+))?.*Attempted loss scale: {_NUMBER}, reducing to {_NUMBER}", re.IGNORECASE
    ),
    re.compile(rf"Reducing dynamic loss scale from {_NUMBER} to {_NUMBER}", re.IGNORECASE),
    re.compile(rf"overflow.*?loss[ _]scale.*?(?:to|:|=)\s*:?\s*{_NUMBER}", re.IGNORECASE),
)
"""The last number of each is the scale after the skip."""

SKIPPED = re.compile(
    r"overflow.*(?:skip|ignor)|(?:skip|ignor)\w*.*overflow|(?:skip\w+) (?:the )?(?:optimizer )?step.*(?:nan|inf)\b",
    re.IGNORECASE,
)

AT_MINIMUM = re.compile(
    r"minimum loss scale reached|loss scale (?:is )?already at (?:the )?minimum|Cannot decrease scale", re.IGNORECASE
)

LOST = re.compile(
    r"\bloss\w* (?:is|became|has become|turned|went) (?:infinite|nan|inf|not finite|non-finite)\b", re.IGNORECASE
)

HINT = re.compile(r"overflow|skip|minimum|reducing|decrease", re.IGNORECASE)


@dataclass(frozen=True)
class Skip:
    """One skipped optimizer step that the log tells in words."""

    line: int
    scale: float | None
    """The loss scale after it; None where the line does not say."""
    at_minimum: bool = False
    order: int = 0
    """Position among the rows of the log."""


def skip_in(number: int, text: str, order: int) -> Skip | None:
    """Return the skipped step that a line tells of; those of other ranks than 0 are the same step once more."""
    if not HINT.search(text):
        return None
    if AT_MINIMUM.search(text):
        return Skip(number, None, at_minimum=True, order=order)
    for pattern in REDUCED:
        match = pattern.search(text)
        if match:
            return Skip(number, float(match[match.lastindex or 1]), order=order)
    return Skip(number, None, order=order) if SKIPPED.search(text) else None


def may_tell(text: str) -> bool:
    """Whether a line has one of the words of these events."""
    return HINT.search(text) is not None or says_lost(text)


def says_lost(text: str) -> bool:
    """Whether a line says in words that the loss is not finite."""
    return LOST.search(text) is not None
