"""What is a rule over a log? One cause, the series that it needs, and a judgement that may also be a doubt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.diagnose.base import Match
from harness.diagnose.finding import Category, Evidence
from harness.logs.normal import LoggedRun, Point
from harness.registry import Registry


@dataclass(frozen=True)
class Doubt:
    """The log neither shows the cause nor rules it out: what would decide it."""

    observation: str
    to_log: str
    """What to log, or to run, so that it can be decided."""


Verdict = Match | Doubt | None
"""A match, a doubt, or None: the cause was looked for and is not there."""


@dataclass(frozen=True, kw_only=True)
class LogRule:
    """One cause that a training log can show; its id is the name of its file."""

    category: Category
    can_judge: Callable[[LoggedRun], bool]
    """Whether the log holds enough to tell that the cause is absent."""
    needs: str
    """What it needs, in words."""
    to_log: str
    """What to log so that it can be judged."""
    judge: Callable[[LoggedRun], Verdict]


LOG_RULES: Registry[LogRule] = Registry("log rule", "harness.logs.rules", "RULE")


def evidence_at(run: LoggedRun, name: str, point: Point, unit: str, threshold: str) -> Evidence:
    """Return one point of a log as evidence."""
    value = point.value if abs(point.value) != float("inf") and point.value == point.value else str(point.value)
    return Evidence(name=name, value=value, unit=unit, threshold=threshold, source=run.source(point.line))


def evidence_of(run: LoggedRun, name: str, value: float | str, threshold: str, line: int, unit: str = "") -> Evidence:
    """Return a number that was computed from a log as evidence; the line is where it can be seen."""
    return Evidence(name=name, value=value, unit=unit, threshold=threshold, source=run.source(line))


def has(name: str, least: int) -> Callable[[LoggedRun], bool]:
    """Return whether a run has at least so many finite points of a series."""
    return lambda run: len(run.get(name).finite) >= least
