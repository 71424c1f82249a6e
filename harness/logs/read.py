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
from harness.logs.pairs import MAX_SCANNED, Row, scan
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


@dataclass
class _Tally:
    lines: int = 0
    unused: int = 0
    code: int = 0
    shown: list[tuple[int, str]] = field(default_factory=list)

    def count(self, number: int, text: str, *, used: bool) -> None:
        self.lines += 1
        self.code += CODE.match(text[:200]) is not None
        if not used:
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
    table = Table()
    for number, text in read_lines(path):
        skip = None if text.lstrip().startswith("{") else skip_in(number, text[:MAX_SCANNED], builder.order)
        if skip:
            builder.skip(skip)
            tally.count(number, text, used=True)
            continue
        if says_lost(text[:MAX_SCANNED]):
            builder.lost(number)
            tally.count(number, text, used=True)
            continue
        used = False
        for row in _rows(number, text, table):
            used = builder.add(row) or used
        tally.count(number, text, used=used or text.strip("-=_*# |+:") == "")


def _rows(number: int, text: str, table: Table) -> Iterator[Row]:
    stripped = text.strip()
    row = record_row(number, stripped) or table.row(number, text)
    if row:
        yield row
    elif table.takes_header(text):
        yield Row(number)
    else:
        yield scan(number, text)
