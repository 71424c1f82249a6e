"""What does each outcome mean, and which of several is the one to look at first? The words of the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

MEANING = {
    "FAILED": "measured, and outside its bounds",
    "ERROR": "the check itself broke; says nothing about what it checks",
    "TIMEOUT": "stopped at its time limit",
    "BLOCKED": "not run, because what it builds on did not pass",
    "INCONCLUSIVE": "measured, but noise is wider than the effect; not a pass",
    "SKIPPED": "not run, for the reason given",
    "RECORDED": "measured, with nothing to compare with; not a pass",
    "PASSED": "measured, and inside its bounds",
}
"""Outcome -> its meaning, the one to look at first at the top."""

EXECUTED = frozenset(MEANING) - {"BLOCKED", "SKIPPED"}
"""Outcomes of checks that ran."""

STARTS_OPEN = frozenset({"FAILED", "ERROR", "TIMEOUT"})
"""Outcomes whose sections are unfolded when the page opens: somebody has to act on them."""

INVARIANTS = ("control", "symptom", "diagnosis", "confirm", "remedy")
"""The five diagnostic invariants, in the order in which they are checked."""


@dataclass(frozen=True)
class Tally:
    """How many checks ended in each outcome."""

    counts: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, outcomes: Iterable[str]) -> Tally:
        """Count outcomes; those that did not occur are left out."""
        counted = Counter(outcomes)
        return cls(tuple((name, counted[name]) for name in MEANING if counted[name]))

    def __getitem__(self, outcome: str) -> int:
        return dict(self.counts).get(outcome, 0)

    @property
    def total(self) -> int:
        """Number of checks."""
        return sum(count for _, count in self.counts)

    @property
    def worst(self) -> str:
        """The outcome to look at first; empty without any check."""
        return self.counts[0][0] if self.counts else ""

    @property
    def starts_open(self) -> bool:
        """Whether a section with these outcomes is unfolded when the page opens."""
        return any(name in STARTS_OPEN for name, _ in self.counts)
