"""How do rows of events become the columns of a trace?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


class Names:
    """Names and their places."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def place(self, name: str) -> int:
        """Return the place of a name, a new one at the end."""
        return self.places.setdefault(name, len(self.places))


def columns(rows: Iterable[tuple[Any, ...]], width: int, floats: int) -> list[Any]:
    """Return rows as columns in the order of the first; the first ``floats`` columns are times."""
    ordered = sorted(rows, key=lambda row: row[0])
    columns = list(zip(*ordered, strict=True)) or [()] * width
    return [np.array(column, dtype=np.float64 if at < floats else np.int64) for at, column in enumerate(columns)]
