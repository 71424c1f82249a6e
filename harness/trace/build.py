"""How do rows of events become the columns of a trace? Kept as plain numbers from the first: a trace has millions."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Names:
    """Names and their places."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def place(self, name: str) -> int:
        """Return the place of a name, a new one at the end."""
        return self.places.setdefault(name, len(self.places))


class Columns:
    """Rows of a beginning, an end, and whole numbers."""

    def __init__(self, num_whole: int = 0) -> None:
        self.times = array("d")
        self.whole = array("q")
        self.num_whole = num_whole

    def add(self, start: float, end: float, *whole: int) -> None:
        """Add a row."""
        self.times.append(start)
        self.times.append(end)
        self.whole.extend(whole)

    def first(self) -> float | None:
        """Return the earliest beginning; None without rows."""
        return float(np.frombuffer(self.times)[::2].min()) if self.times else None

    def sorted_from(self, base: float) -> list[NDArray[Any]]:
        """Return the columns in the order of the beginnings, times counted from ``base``."""
        times = np.frombuffer(self.times).reshape(-1, 2) if self.times else np.empty((0, 2))
        whole = np.frombuffer(self.whole, dtype=np.int64) if self.whole else np.empty(0, dtype=np.int64)
        order = np.argsort(times[:, 0], kind="stable")
        rows = whole.reshape(-1, self.num_whole) if self.num_whole else whole.reshape(len(order), 0)
        return [*(times[order, at] - base for at in (0, 1)), *(rows[order, at] for at in range(self.num_whole))]
