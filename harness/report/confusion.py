"""Which causes are taken for which? The confusion matrix, and the one sentence that it comes to."""

from __future__ import annotations

from dataclasses import dataclass

from harness.report.model import Results

STATUSES = ("healthy", "inconclusive", "not_enough_evidence", "unknown")
"""Diagnoses that are not a cause; they stand last."""


@dataclass(frozen=True)
class Confusion:
    """Rows are what was true, columns what was diagnosed; a cell is (number of runs, whether that is right)."""

    columns: list[str]
    rows: list[tuple[str, list[tuple[int, bool]]]]
    sentence: str


def confusion(results: Results) -> Confusion:
    """Return the matrix with the causes in one order on both sides, so that right answers lie on the diagonal."""
    counts = results.confusion
    names = {*counts, *(found for row in counts.values() for found in row)}
    ordered = sorted(names, key=_statuses_last)
    truths = [name for name in ordered if name in counts]
    rows = [(truth, [(counts[truth].get(found, 0), found == truth) for found in ordered]) for truth in truths]
    return Confusion(columns=ordered, rows=rows, sentence=_sentence(counts))


def _statuses_last(name: str) -> tuple[int, str]:
    return (STATUSES.index(name) + 1 if name in STATUSES else 0, name)


def _sentence(counts: dict[str, dict[str, int]]) -> str:
    runs = sum(sum(row.values()) for row in counts.values())
    if not runs:
        return "No run was diagnosed."
    right = sum(row.get(truth, 0) for truth, row in counts.items())
    healthy = counts.get("healthy", {})
    alarms = sum(healthy.values()) - sum(healthy.get(status, 0) for status in STATUSES[:3])
    blamed = (
        f"{alarms} of {sum(healthy.values())} healthy runs got a finding" if healthy else "no healthy run is among them"
    )
    return f"{right} of {runs} runs were diagnosed as what they are; {blamed}."
