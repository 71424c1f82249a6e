"""The one place that prints for a person: aligned tables, and nothing that a pipe cannot show."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

MAX_COLUMN = 48
"""Characters to which columns are aligned."""

EXIT_PIPE = 141
"""What a shell reports for a program that SIGPIPE ended: 128 + 13."""


def piped(command: Callable[[list[str]], int], words: list[str]) -> int:
    """Run a command to its exit code; a reader of its output that has gone, such as ``head``, is no error of ours."""
    try:
        try:
            return command(words)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at its exit, and would complain there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE


def say(text: str) -> None:
    """Print to standard output."""
    sys.stdout.write(shown(text) + "\n")


def complain(text: str) -> None:
    """Print to standard error."""
    sys.stderr.write(shown(text) + "\n")


def shown(text: str) -> str:
    """Escape what a pipe or a terminal without UTF-8 cannot show, and control characters that somebody wrote."""
    kept = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
    return kept.encode("ascii", "backslashreplace").decode()


def table(rows: Sequence[Sequence[str]], header: Sequence[str] = ()) -> list[str]:
    """Return the rows with aligned columns; a cell that is wider than a column may be moves the rest of its own row."""
    every = [[cell_text(cell) for cell in row] for row in ([header, *rows] if header else rows)]
    widths = [min(MAX_COLUMN, max(len(row[column]) for row in every)) for column in range(len(every[0]))]
    padded = (zip(row, widths, strict=True) for row in every)
    return ["  " + "  ".join(cell.ljust(width) for cell, width in row).rstrip() for row in padded]


def cell_text(text: str) -> str:
    """Return a text as one line for a table."""
    return " ".join(shown(text).split())
