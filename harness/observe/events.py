"""Who waits for which event, and which records belong to one step?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from harness.observe.base import Observer

EVENTS = tuple(name for name in vars(Observer) if name.startswith("on_"))


def joined(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one record for each step, in their order; a name that comes twice in a step begins another."""
    joined: list[dict[str, Any]] = []
    latest: dict[int, dict[str, Any]] = {}
    for record in records:
        known = latest.get(record["step"])
        if known is None or not known.keys() & record.keys() <= {"step"}:
            joined.append(known := {})
            latest[record["step"]] = known
        known |= record
    return sorted(joined, key=lambda record: record["step"])


def listeners_of(
    observers: list[Observer], wanted: Callable[[Observer, str], bool]
) -> dict[str, list[Callable[..., None]]]:
    """Return the methods to call for each event: those that an observer overrides and wants."""
    return {
        event: [
            getattr(observer, event)
            for observer in observers
            if getattr(type(observer), event) is not getattr(Observer, event) and wanted(observer, event)
        ]
        for event in EVENTS
    }
