"""What does a training log say? Any text file in, runs with series of numbers out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import UsageError
from harness.logs.build import Builder
from harness.logs.documents import document_rows, record_row
from harness.logs.events import says_lost, skip_in
from harness.logs.normal import Log
from harness.logs.pairs import Row
from harness.logs.shapes import MAX_SCANNED, shape_of
from harness.logs.table import Table
from harness.logs.text import encoding_of, read_lines

CODE = re.compile(
    r"^\s*(?:def |class |import |from [\w.]+ import |return\b|assert |raise |elif |else:|try:|except\b|with .*:$"
    r"|(?:if|for|while) .*:$|@\w|#include|#define|//|/\*|};|[\w.:]+\(.*\);?\s*$)"
)
"""Lines as programs have them."""

CODE_SHARE = 0.15
"""Of the lines, from which a file is a program and no log: Python has a third, logs with a traceback have a few."""

SHOWN_LINES = 3
SHOWN_CHARACTERS = 60

MAX_SORTED = 300_000
"""Rows of a table of one number a row that are put in the order of their steps: 200 MB at most."""


@dataclass
class _Tally:
    lines: int = 0
    unused: int = 0
    code: int = 0
    shown: list[tuple[int, str]] = field(default_factory=list)

    def count(self, number: int, text: str, *, used: bool) -> None:
        self.lines += 1
        if not used:
            self.code += CODE.match(text[:200]) is not None
            self.unused += 1
            if len(self.shown) < SHOWN_LINES:
                self.shown.append((number, text.strip()[:SHOWN_CHARACTERS]))


def read_log(path: Path) -> Log:
    """Read a training log; UsageError when the file cannot be read or is no text.

    Everything that is no number of training is counted as unused, never an error: most lines of a log are not.
    """
    if path.is_dir():
        raise UsageError(f"{path}: a folder; a training log as a text file is accepted here")
    builder, tally = Builder(str(path)), _Tally()
    try:
        rows = document_rows(path) if _is_text(path) else None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    if rows is not None:
        for row in rows:
            tally.count(row.line, "a record without a number of training", used=builder.add(row))
    else:
        _read_text(path, builder, tally)
    is_code = tally.code > CODE_SHARE * tally.lines
    return Log(str(path), [] if is_code else builder.runs(), tally.lines, tally.unused, tally.shown)


def _is_text(path: Path) -> bool:
    with path.open("rb") as file:
        return bool(encoding_of(file.read(1 << 16), path))


def _read_text(path: Path, builder: Builder, tally: _Tally) -> None:
    table = Table(path.stem)
    sorted_later: list[Row] = []
    for number, text in read_lines(path):
        row = _record(number, text, table)
        if row and table.naming >= 0 and row.table and len(sorted_later) < MAX_SORTED:
            sorted_later.append(row)
            tally.count(number, text, used=True)
        elif row:
            tally.count(number, text, used=builder.add(row))
        else:
            tally.count(number, text, used=_read_line(number, text, table, builder))
    for row in _by_step(sorted_later):
        builder.add(row)


def _record(number: int, text: str, table: Table) -> Row | None:
    """Return a line that is a whole record: JSON, or a row of the table that is being read."""
    if text[:1] in "{ \t" and text.strip()[:1] == "{":
        return record_row(number, text.strip())
    return table.row(number, text)


def _read_line(number: int, text: str, table: Table, builder: Builder) -> bool:
    """Take what a line of text says; whether it says anything of use."""
    text = text[:MAX_SCANNED]
    shape = shape_of(text)
    if shape.is_event and _read_event(number, text, builder):
        return True
    if shape.may_be_header and table.takes_header(text):
        return False
    return builder.add(shape.row(number, text)) or text.strip("-=_*# |+:") == ""


def _read_event(number: int, text: str, builder: Builder) -> bool:
    skip = skip_in(number, text, builder.order)
    if skip:
        builder.skip(skip)
    elif says_lost(text):
        builder.lost(number)
    else:
        return False
    return True


def _by_step(rows: list[Row]) -> Iterator[Row]:
    """Yield the rows of a table that holds one series after the other, run by run in the order of their steps."""
    runs = {run: index for index, run in enumerate(dict.fromkeys(row.run for row in rows))}
    keyed = [(runs[row.run], _step(row), index, row) for index, row in enumerate(rows)]
    for _, _, _, row in sorted(keyed, key=lambda item: item[:3]):
        yield row


def _step(row: Row) -> float:
    return next((pair.value for pair in row.pairs if pair.key.lower() in {"step", "epoch", "iteration"}), 0.0)
