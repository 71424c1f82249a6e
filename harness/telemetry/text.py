"""What are the lines of a file, whatever its encoding and its line ends? Never all of them at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from harness.errors import UsageError

HEAD_BYTES = 1 << 18
"""Bytes from which a format is told: far more than any banner before the first line of a tool."""

MAX_LINE = 1 << 14
"""Characters of a line that are looked at."""

ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def head_of(path: Path) -> list[str]:
    """Return the first lines; UsageError when the file cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    text = head.decode(_encoding(head), errors="replace")
    return [ANSI.sub("", line)[:MAX_LINE] for line in re.split(r"\r\n|\n|\r", text)]


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line that is not empty; UsageError when the file cannot be read."""
    try:
        with path.open("rb") as file:
            encoding = _encoding(file.read(4096))
        with path.open(encoding=encoding, errors="replace", newline=None) as file:
            for number, text in enumerate(file, 1):
                line = ANSI.sub("", text[:MAX_LINE]) if "\x1b" in text[:MAX_LINE] else text[:MAX_LINE]
                if line and not line.isspace():
                    yield number, line.rstrip("\n")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error


def _encoding(head: bytes) -> str:
    """Return the encoding: PowerShell writes UTF-16 into what it redirects."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    pairs = head[1::2]
    return "utf-16-le" if pairs and pairs.count(0) > 0.3 * len(pairs) else "utf-8-sig"
