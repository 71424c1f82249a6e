"""How does a value read on the page? Numbers with sensible digits and units, text that cannot deceive."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from markupsafe import Markup, escape

NOTHING = "-"
NOT_FINITE = "not finite"

MAX_TEXT = 20_000
"""Longest text that the page repeats, in characters (ten printed pages); all of it is in results.json."""

_DEPTH = 6
"""Levels of names before the rest is printed as it is; a fingerprint has two or three."""

_PLAIN = (1e-4, 1e6)
"""Numbers between these are written without an exponent."""

_EXACT = 1e15
"""Whole numbers below this are written in full: a float64 holds them exactly."""

_NO_CHARACTER = re.compile("[\ufdd0-\ufdef\ufffe\uffff]")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_JOINERS = "\u200c\u200d"
"""Invisible, but part of the spelling in several scripts and in emoji."""

_BREAK = "\u200b"
"""Stands for a place where a line may break; ``clean`` leaves none in a user's text."""

_BREAKS = (re.compile(r"[^\W_][_/.](?=[^\W\d])"), re.compile(r"[^\s_/.]{24}(?=[^\s_/.])"), re.compile(r"\S{40}(?=\S)"))

_BYTES = ((1024.0**3, "GiB"), (1024.0**2, "MiB"), (1024.0, "KiB"), (1.0, "B"))
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_SCALES = {"bytes": _BYTES, "B": _BYTES, "s": _SECONDS, "seconds": _SECONDS}


def show(value: Any) -> Any:
    """Return what the page prints for any value; markup that the report made itself passes unchanged."""
    if isinstance(value, Markup):
        return value
    if value is None or isinstance(value, (int, float)):
        return number(value)
    return clean(str(value))


def number(value: float | None, digits: int = 4) -> str:
    """Return a number with ``digits`` significant digits; nothing and not-finite values become words."""
    if value is None:
        return NOTHING
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        return NOT_FINITE
    if value == int(value) and abs(value) < _EXACT:
        return str(int(value))
    return _decimal(value, digits)


def _decimal(value: float, digits: int) -> str:
    if _PLAIN[0] <= abs(value) < _PLAIN[1]:
        places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        return f"{value:.{places}f}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def measures(values: Sequence[float | str | None], unit: str) -> tuple[list[str], str]:
    """Return texts in one common, readable unit, and that unit; bytes become MiB, seconds become ms.

    Two different numbers never read the same: digits are added until they differ, so that a value
    just outside its bound is seen to be outside.
    """
    factor, unit = _scale([value for value in values if isinstance(value, (int, float))], unit)
    scaled = [value / factor if factor != 1.0 and isinstance(value, (int, float)) else value for value in values]
    different = {value for value in scaled if isinstance(value, (int, float)) and math.isfinite(value)}
    digits = next((d for d in range(4, 17) if len({number(value, d) for value in different}) == len(different)), 17)
    return [value if isinstance(value, str) else number(value, digits) for value in scaled], unit


def _scale(values: Sequence[float], unit: str) -> tuple[float, str]:
    steps = _SCALES.get(unit, ((1.0, unit),))
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return next(((factor, name) for factor, name in steps if largest >= factor), _smallest(steps, largest))


def _smallest(steps: Sequence[tuple[float, str]], largest: float) -> tuple[float, str]:
    """Return the finest step, or the plain one (factor 1) when there is nothing to make readable."""
    return steps[-1] if largest else next(step for step in steps if step[0] == 1.0)


def measure(value: float | None, unit: str) -> str:
    """Return one number with its readable unit, such as ``12.3 ms``."""
    (text,), unit = measures([value], unit)
    return text if value is None or not math.isfinite(value) or not unit else f"{text} {unit}"


def clean(text: str) -> str:
    """Return text in which every invisible or direction-changing character is spelled out, cut to ``MAX_TEXT``."""
    text = _ANSI.sub("", text[: 2 * MAX_TEXT]).replace("\r\n", "\n").replace("\r", "\n")
    if len(text) > MAX_TEXT:
        text = text[:MAX_TEXT] + " ... (cut here; the whole text is in results.json)"
    return "".join(character if _is_plain(character) else _spelled(character) for character in text)


def _is_plain(character: str) -> bool:
    if character in "\n\t" or character in _JOINERS:
        return True
    return unicodedata.category(character) not in {"Cc", "Cf", "Cs"} and not _NO_CHARACTER.match(character)


def _spelled(character: str) -> str:
    return ascii(character)[1:-1]


def soft(value: Any) -> Markup:
    """Return what ``show`` prints, escaped, with the places at which a line in a table cell may break.

    These are after an underscore, slash or dot inside a word, and within any part of more than 24 characters.
    """
    text = str(show(value))
    for place in _BREAKS:
        text = place.sub(rf"\g<0>{_BREAK}", text)
    return Markup(str(escape(text)).replace(_BREAK, "<wbr>"))


def slug(*parts: str) -> str:
    """Return an id of ASCII letters, digits and hyphens; different parts may give the same one."""
    return "-".join(re.sub(r"[^a-z0-9]+", "-", part.lower()[:60]).strip("-") or "x" for part in parts)


def uniquely() -> Callable[[str], str]:
    """Return a function that adds a number to an id that it has returned before."""
    seen: set[str] = set()

    def unique(wanted: str) -> str:
        name, count = wanted, 1
        while name in seen:
            count += 1
            name = f"{wanted}-{count}"
        seen.add(name)
        return name

    return unique


def elapsed(started: str, ended: str) -> str:
    """Return the time between two ISO 8601 times, such as ``3 min 20 s``; empty when either cannot be read."""
    try:
        seconds = (datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds()
    except (ValueError, TypeError):
        return ""
    return "" if seconds < 0 else _spoken(round(seconds))


def _spoken(seconds: int) -> str:
    hours, minutes = divmod(seconds // 60, 60)
    parts = [(hours, "h"), (minutes, "min"), (seconds % 60, "s")]
    return " ".join(f"{count} {unit}" for count, unit in parts if count) or "under 1 s"


def flatten(value: Any, name: str = "", depth: int = 0) -> list[tuple[str, str]]:
    """Return nested plain data as (dotted name, text) rows, at most ``_DEPTH`` levels deep."""
    if isinstance(value, dict) and value and depth < _DEPTH:
        return [row for key, item in value.items() for row in flatten(item, _dotted(name, str(key)), depth + 1)]
    if isinstance(value, (list, tuple)):
        if any(isinstance(item, dict) for item in value) and depth < _DEPTH:
            return [row for i, item in enumerate(value) for row in flatten(item, _dotted(name, str(i)), depth + 1)]
        return [(name, _listed([_word(item) for item in value]))]
    return [(name, _word(value))]


def _dotted(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def _listed(words: list[str]) -> str:
    """Return eight equal cards as ``8 x NAME``, and anything else separated by commas."""
    same = len(words) > 1 and len(set(words)) == 1
    return f"{len(words)} x {words[0]}" if same else ", ".join(words) or NOTHING


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value in ("", {}):
        return NOTHING
    return str(value)
