"""Which lines of text does a file hold, whatever wrote it?

Files are streamed: UTF-8 with or without a mark, UTF-16 with or without one, CRLF, carriage returns and backspaces of
progress bars, colour codes. A line number is the one that an editor shows.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from harness.errors import UsageError

CHUNK_BYTES = 1 << 20
"""Bytes that are read at a time."""

HEAD_BYTES = 1 << 16
"""Bytes from which the encoding is recognised."""

MAX_LINE = 1 << 16
"""Characters of a line that are read; the rest of a longer one is dropped, so that memory stays bounded."""

CONTROL_SHARE = 0.05
"""Control characters from which a file is no text: random bytes have about 10 %, text without colours has none."""

UNDECODED_SHARE = 0.3
"""Undecodable characters from which a file is no text: random bytes have half; Latin-1 prose has a few percent."""

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")

CONTROL = re.compile(r"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")

DRAWN = str.maketrans("\u2502\u2503\u2551", "|||")
"""The vertical lines of tables that are drawn."""

OVERWRITES = re.compile(r"\r|\x08+")


class Line(NamedTuple):
    """One line, or one state of a progress bar that shares its line with others."""

    number: int
    text: str


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the non-empty lines; UsageError when the file cannot be read or is no text."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            decoder = codecs.getincrementaldecoder(encoding_of(head, path))(errors="replace")
            only_cr = b"\r" in head and b"\n" not in head
            number, rest, chunk = 1, "", head
            while True:
                text = rest + decoder.decode(chunk, final=not chunk).replace("\r\n", "\n")
                if only_cr:
                    text = text.replace("\r", "\n")
                *whole, rest = text.split("\n")
                for line in whole:
                    yield from _states(number, line)
                    number += 1
                if not chunk:
                    break
                rest = rest if len(rest) <= CHUNK_BYTES else rest[:MAX_LINE]
                chunk = file.read(CHUNK_BYTES)
            yield from _states(number, rest)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error


def encoding_of(head: bytes, path: Path) -> str:
    """Return the encoding that the first bytes show; UsageError when they are no text."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif len(head) >= 4 and head[1::2].count(0) > 0.3 * len(head[1::2]) and head[::2].count(0) < 0.02 * len(head):
        encoding = "utf-16-le"
    elif len(head) >= 4 and head[::2].count(0) > 0.3 * len(head[::2]) and head[1::2].count(0) < 0.02 * len(head):
        encoding = "utf-16-be"
    else:
        encoding = "utf-8-sig"
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(head)
    odd = len(CONTROL.findall(ANSI.sub("", text)))
    if odd > CONTROL_SHARE * len(text) or text.count("\ufffd") > UNDECODED_SHARE * len(text):
        raise UsageError(f"{path}: no text file; a training log as text, CSV or JSON lines is accepted")
    return encoding


def _states(number: int, line: str) -> Iterator[Line]:
    """Yield what a line showed one after the other; a bar overwrites itself."""
    line = ANSI.sub("", line) if "\x1b" in line else line
    line = line if line.isascii() else line.translate(DRAWN)
    for state in OVERWRITES.split(line):
        if state and not state.isspace():
            yield Line(number, state[:MAX_LINE])
