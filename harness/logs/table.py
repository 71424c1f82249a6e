"""Is this line the header or a row of a table? CSV of any delimiter, Markdown, and columns set with spaces.

A header is a line without numbers that names at least two things that we know; rows have as many cells. Exports have
one number a row: of one scalar, which only the name of the file tells, or of many, with a column for the name.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from typing import NamedTuple

from harness.logs.names import UNNAMED, meaning_of
from harness.logs.pairs import FACTOR, Pair, Row, factor_of, number_of

EMPTY = {"", "-", "--", "none", "na", "n/a", "null", "no log"}

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

PATIENCE = 3
"""Lines of another kind after which a table in a text has ended."""

NAMING = {"key", "metric", "tag", "name", "metric_name", "variable", "series"}
"""Columns that hold the name of what the row measures."""

RUN_NAMES = {"run", "run_id", "run_name", "run_uuid"}

METRIC_FILE = re.compile(r"(?P<time>\d{13}) (?P<value>\S+) (?P<step>\d+)")
"""A row of a metric of MLflow: milliseconds since 1970, value, step."""

Splitter = Callable[[str], list[str]]


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


class Known(NamedTuple):
    """A column whose meaning is known."""

    place: int
    key: str
    split: str
    factor: float


class Table:
    """The table that is being read, if one is."""

    def __init__(self, title: str = "") -> None:
        self.title = title.rsplit("tag-", 1)[-1]
        """What the file is called: the one name that an export of one scalar has."""
        self.header: list[str] = []
        self.delimiter = ""
        self.strangers = 0
        self.known: list[Known] = []
        self.others: list[str] = []
        self.naming = self.value = self.run = -1

    def takes_header(self, text: str) -> bool:
        """Whether the line is a header; the rows that follow are then read by it."""
        if len(text) > MAX_HEADER or VALUES.search(text):
            return False
        for delimiter, split in SPLITTERS.items():
            if delimiter.strip() and delimiter not in text:
                continue
            cells = split(text)
            if _is_header(cells, delimiter):
                self._begin(cells, delimiter)
                return True
        return False

    def row(self, number: int, text: str) -> Row | None:
        """Return the line as a row of the table; None when it is none."""
        if not self.header:
            return self._of_metric_file(number, text)
        cells = SPLITTERS[self.delimiter](text)
        if self.delimiter.isspace() and len(cells) == len(self.header) + 1 and self._is_indexed(cells):
            cells = cells[1:]
        fits = len(cells) >= len(self.header) if self.delimiter.isspace() else len(cells) == len(self.header)
        pairs = self._pairs(cells) if fits else None
        if pairs is None:
            self.strangers += self.delimiter.strip() == ""
            if self.strangers > PATIENCE:
                self.header = []
            return None
        self.strangers = 0
        run = cells[self.run] if 0 <= self.run < len(cells) else ""
        return Row(number, pairs=pairs, table=True, others=self.others, run=run)

    def _is_indexed(self, cells: list[str]) -> bool:
        """Whether the row begins with a number of its own, for which the header has no name: pandas prints it so."""
        counts = meaning_of(self.header[0]).name in {"step", "epoch"}
        return cells[0].isdecimal() and (not counts or cells[1].replace(".0", "").isdecimal())

    def _begin(self, cells: list[str], delimiter: str) -> None:
        self.header, self.delimiter, self.strangers = cells, delimiter, 0
        lower = [cell.lower() for cell in cells]
        self.value = lower.index("value") if "value" in lower else -1
        self.naming = next((i for i, cell in enumerate(lower) if cell in NAMING), -1) if self.value >= 0 else -1
        self.run = next((i for i, cell in enumerate(lower) if cell in RUN_NAMES), -1)
        self.known, self.others = [], []
        for index, key in enumerate(cells):
            meaning = meaning_of(key)
            if index in {self.naming, self.value} or key.endswith(("__MIN", "__MAX")):
                continue
            if meaning.name:
                self.known.append(Known(index, key, meaning.split, factor_of(key, "")))
            else:
                self.others.append(key)
        if self.value >= 0 and self.naming < 0:
            self.known.append(self._untitled(self.value))

    def _untitled(self, index: int) -> Known:
        key = self.title if meaning_of(self.title).name else UNNAMED
        return Known(index, key, meaning_of(key).split, 1.0)

    def _pairs(self, cells: list[str]) -> list[Pair] | None:
        pairs = []
        for index, key, split, factor in self.known:
            cell = cells[index] if index < len(cells) else ""
            try:
                pairs.append(Pair(key, float(cell) * factor, split))
                continue
            except ValueError:
                if cell.lower() in EMPTY:
                    continue
            value, unit = _cell(cell, decimal_comma=self.delimiter == ";")
            if value is None:
                return None
            pairs.append(Pair(key, value * (FACTOR.get(unit, 1.0) if unit else factor), split))
        if self.naming >= 0 and max(self.naming, self.value) < len(cells):
            value, _ = _cell(cells[self.value], decimal_comma=self.delimiter == ";")
            name = cells[self.naming]
            if value is not None:
                pairs.append(Pair(name, value, meaning_of(name).split))
        return pairs or None

    def _of_metric_file(self, number: int, text: str) -> Row | None:
        match = METRIC_FILE.fullmatch(text) if text[:1] == "1" else None
        value = number_of(match["value"]) if match else None
        if match is None or value is None:
            return None
        column = self._untitled(0)
        pairs = [Pair(column.key, value, column.split), Pair("step", float(match["step"]))]
        return Row(number, [*pairs, Pair("wall time", float(match["time"]) / 1000)], table=True)


def _is_header(cells: list[str], delimiter: str) -> bool:
    if (
        len(cells) < 2
        or any(number_of(cell) is not None for cell in cells)
        or any(MEASURED.search(cell) for cell in cells)
    ):
        return False
    lower = {cell.lower() for cell in cells}
    if "value" in lower and lower & NAMING and len(cells) > 2:
        return True
    known = sum(bool(meaning_of(cell).name) for cell in cells)
    if delimiter.strip() or delimiter == "\t":
        return known >= 2
    return known >= 2 and (known >= len(cells) / 2 or (delimiter == "  " and known >= 3))


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
