"""Is this line the header or a row of a table? CSV of any delimiter, Markdown, and columns set with spaces.

A header is a line without numbers that names at least two things that we know; rows have as many cells.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable

from harness.logs.names import meaning_of
from harness.logs.pairs import FACTOR, Pair, Row, number_of

EMPTY = {"", "-", "--", "none", "na", "n/a", "null"}

CELL = re.compile(
    r"(?P<number>[-+]?[\d.,]+(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf))\s*(?P<unit>%|ms|us|s|[kKMG]i?B?)?:?", re.IGNORECASE
)
OF_TOTAL = re.compile(r"(\d+)/\d+")
CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d\d(?:\.\d+)?)")

MEASURED = re.compile(r"[{}:=]|(?:^|\s)\d+\.\d|.{81}")
"""What no cell of a header has: a value, or a paragraph."""

VALUES = re.compile(r"=|:\s*[-+\d]|\s\d+\.\d")
"""What no header has anywhere."""

MAX_HEADER = 4096
"""Characters; a header of 200 columns has fewer."""

Splitter = Callable[[str], list[str]]

PATIENCE = 3
"""Lines of another kind after which a table in a text has ended."""


def _by_character(delimiter: str) -> Splitter:
    def split(text: str) -> list[str]:
        if delimiter == "|":
            text = text.strip().strip("|")
        cells = next(csv.reader([text], delimiter=delimiter)) if '"' in text else text.split(delimiter)
        return [cell.strip().strip("*`") for cell in cells]

    return split


SPLITTERS: dict[str, Splitter] = {
    ",": _by_character(","),
    ";": _by_character(";"),
    "\t": _by_character("\t"),
    "|": _by_character("|"),
    "  ": lambda text: re.split(r"\s{2,}", text.strip()),
    " ": lambda text: text.split(),
}


class Table:
    """The table that is being read, if one is."""

    def __init__(self) -> None:
        self.header: list[str] = []
        self.delimiter = ""
        self.strangers = 0

    def takes_header(self, text: str) -> bool:
        """Whether the line is a header; the rows that follow are then read by it."""
        if len(text) > MAX_HEADER or VALUES.search(text):
            return False
        for delimiter, split in SPLITTERS.items():
            if delimiter.strip() and delimiter not in text:
                continue
            cells = split(text)
            if _is_header(cells, loose=bool(delimiter.strip()) or delimiter == "\t"):
                self.header, self.delimiter, self.strangers = cells, delimiter, 0
                return True
        return False

    def row(self, number: int, text: str) -> Row | None:
        """Return the line as a row of the table; None when it is none."""
        if not self.header:
            return None
        cells = SPLITTERS[self.delimiter](text)
        fits = len(cells) >= len(self.header) if self.delimiter.isspace() else len(cells) == len(self.header)
        pairs = self._pairs(cells) if fits else None
        if pairs is None:
            self.strangers += self.delimiter.strip() == ""
            if self.strangers > PATIENCE:
                self.header = []
            return None
        self.strangers = 0
        return Row(number, pairs=pairs, table=True, others=[key for key in self.header if not meaning_of(key).name])

    def _pairs(self, cells: list[str]) -> list[Pair] | None:
        pairs = []
        for key, cell in zip(self.header, cells, strict=False):
            meaning = meaning_of(key)
            if cell.lower() in EMPTY or not meaning.name or key.endswith(("__MIN", "__MAX")):
                continue
            value, unit = _cell(cell, decimal_comma=self.delimiter == ";")
            if value is None:
                return None
            unit = unit or ("ms" if re.search(r"[ _(/]ms\)?$", key) else "")
            pairs.append(Pair(key, value * FACTOR.get(unit, 1.0), meaning.split, unit))
        return pairs or None


def _is_header(cells: list[str], loose: bool) -> bool:
    if (
        len(cells) < 2
        or any(number_of(cell) is not None for cell in cells)
        or any(MEASURED.search(cell) for cell in cells)
    ):
        return False
    known = sum(bool(meaning_of(cell).name) for cell in cells)
    return known >= 2 and (loose or known >= len(cells) / 2)


def _cell(text: str, *, decimal_comma: bool) -> tuple[float | None, str]:
    clock = CLOCK.fullmatch(text)
    if clock:
        return float(clock[1] or 0) * 3600 + float(clock[2]) * 60 + float(clock[3]), "s"
    of_total = OF_TOTAL.fullmatch(text)
    match = CELL.fullmatch(of_total[1] if of_total else text.strip("'\""))
    if not match:
        return None, ""
    number = match["number"].replace(",", ".") if decimal_comma else match["number"]
    return number_of(number), (match["unit"] or "").lower()
