"""What time is it, and how long did something take? Wall time to label, monotonic time to measure."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> str:
    """Return the time as ISO 8601 in UTC with microseconds; it labels and is never subtracted."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
