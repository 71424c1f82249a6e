"""What time is it, and how long did something take? Wall time to label, monotonic time to measure."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def utc_now() -> str:
    """Return the time as ISO 8601 in UTC with microseconds; it labels and is never subtracted."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


class Stopwatch:
    """Seconds since it was made; unmoved by changes of the wall clock."""

    def __init__(self) -> None:
        self._start_s = time.perf_counter()

    def elapsed_s(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self._start_s
