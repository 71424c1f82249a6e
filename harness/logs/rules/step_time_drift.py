"""The steps get slower over the run, for good: not the first ones, not those with an evaluation in them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from harness.diagnose.base import Match
from harness.logs.base import LogRule, Verdict, evidence_of
from harness.logs.curves import quantile, thirds
from harness.logs.normal import LoggedRun, Point, where

LEAST = 20
"""Step times; each third then has six."""

WARM_UP = 0.1
"""Share of the run that is left out at its start: compilation, caches, first epochs."""

RATIO = 1.5
"""Last third over first third. A neighbour on the machine, or augmentation that is switched on, makes up to 1.4."""


def judge(run: LoggedRun) -> Verdict:
    """Compare the thirds; all but a quarter of the last must be slower than all but a quarter of the first."""
    points = _timed(run)
    if len(points) < LEAST:
        return None
    first, middle, last = thirds([point.value for point in points])
    if median(first) <= 0 or median(last) < RATIO * median(first) or quantile(last, 0.25) <= quantile(first, 0.75):
        return None
    if _does_more(run):
        return None
    gradual = 1.1 * median(first) < median(middle) < median(last) / 1.1
    start, end = points[len(first) // 2], points[-max(1, len(last) // 2)]
    return Match(
        confidence=0.7 if gradual else 0.6,
        summary=(
            f"Steps take {median(first):.3g} s at first (around {where(start)}) and {median(last):.3g} s at last "
            "(around "
            f"{where(end)}): {median(last) / median(first):.1f} times as long, "
            f"{'step by step' if gradual else 'since one point'}."
        ),
        evidence=[
            evidence_of(run, "step_time_ratio", median(last) / median(first), f">= {RATIO}", end.line),
            evidence_of(run, "first_step_time", median(first), "told for context", start.line, "s"),
            evidence_of(run, "last_step_time", median(last), "told for context", end.line, "s"),
        ],
        confirm=(
            "Resume from the last checkpoint: fast again points to the process (a leak, a growing list), slow to the "
            "machine."
        ),
        action=(
            "Log memory, clocks and data time beside the step time; look for lists that grow, metrics kept with "
            "their graph, "
            "throttling, and storage that slows down."
        ),
    )


def _timed(run: LoggedRun) -> list[Point]:
    """Return the step times after the warm-up; the inverse of the throughput where there are none."""
    points = [point for point in run.get("step_time_s").finite if point.value > 0]
    if not points:
        rates = [point for point in run.get("throughput").finite if point.value > 0]
        points = [point._replace(value=1.0 / point.value) for point in rates]
    return points[max(1, int(WARM_UP * len(points))) :]


def _does_more(run: LoggedRun) -> bool:
    """Whether the throughput in samples or tokens holds while the steps take longer: longer inputs, no slow-down."""
    rates = [point.value for point in run.get("throughput").finite if point.value > 0]
    if not run.get("step_time_s").finite or len(rates) < LEAST:
        return False
    first, _, last = thirds(rates[int(WARM_UP * len(rates)) :])
    return _middle(last) > _middle(first) / 1.2


def _middle(values: Sequence[float]) -> float:
    return median(values)


def can_judge(run: LoggedRun) -> bool:
    """Enough step times, or rates."""
    return len(_timed(run)) >= LEAST


RULE = LogRule(
    category="host_overhead",
    can_judge=can_judge,
    needs=f"{LEAST} step times",
    to_log="the time of each step, or the throughput",
    judge=judge,
)
