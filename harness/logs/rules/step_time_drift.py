"""The steps get slower over the run, for good: not the first ones, not those with an evaluation in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from harness.diagnose.base import Match
from harness.diagnose.finding import NO_BOUND
from harness.logs.base import LogRule, Verdict, evidence_of
from harness.logs.curves import quantile, thirds, trend
from harness.logs.normal import LoggedRun, Point, where

LEAST = 12
"""Step times after the warm-up; each third then has four, and all but one of them must agree."""

WARM_UP = 0.1
"""Share of the run that is left out at its start: compilation, caches, first epochs."""

RATIO = 1.5
"""Last over first. A neighbour on the machine, or augmentation that is switched on, makes up to 1.4."""

GRADUAL = 1.25
"""The same where the middle lies between and the whole has a clear trend: a clock that falls as a machine gets warm
costs less than 10 %."""

TREND = 4.0
"""Mann-Kendall statistic of a gradual change: what has no trend reaches it once in 30 000 times."""

BETWEEN = 1.05
"""Factor by which the middle third lies above the first and below the last in a gradual change."""

LATE = (0.3, 0.2, 0.1)
"""Shares of the run that may be slow at its end; a tenth is no evaluation or checkpoint."""

LEAST_LATE = 8
"""Step times at the end that must be slow: the last evaluation and the last checkpoint are two."""


@dataclass(frozen=True)
class Change:
    """Two parts of a run, the earlier and the later."""

    before: Sequence[Point]
    after: Sequence[Point]
    gradual: bool

    @property
    def ratio(self) -> float:
        """Median step time of the later over that of the earlier part."""
        return _middle(self.after) / _middle(self.before)


def judge(run: LoggedRun) -> Verdict:
    """Compare the thirds, then the end with all before it; most of the later must be slower than of the earlier."""
    points, stamped = _timed(run)
    if len(points) < LEAST:
        return None
    change = _between_thirds(points) or _at_the_end(points)
    if change is None or _does_more(run):
        return None
    start, end = change.before[len(change.before) // 2], change.after[len(change.after) // 2]
    return Match(
        confidence=0.55 if stamped else 0.7 if change.gradual else 0.6,
        summary=(
            f"Steps take {_middle(change.before):.3g} s (around {where(start)}) and later "
            f"{_middle(change.after):.3g} s (around {where(end)}): {change.ratio:.1f} times as long, "
            f"{'step by step' if change.gradual else 'since one point'}"
            + ("; computed from the times of the lines." if stamped else _waiting(run, change))
        ),
        evidence=[
            evidence_of(run, "step_time_ratio", change.ratio, f">= {_bound(change)}", end.line),
            evidence_of(run, "first_step_time", _middle(change.before), NO_BOUND, start.line, "s"),
            evidence_of(run, "last_step_time", _middle(change.after), NO_BOUND, end.line, "s"),
        ],
        confirm=(
            "Resume from the last checkpoint: fast again points to the process (a leak, a growing list), slow to the "
            "machine."
        ),
        action=(
            "Log memory, clocks and data time beside the step time; look for lists that grow, metrics kept with "
            "their graph, throttling, and storage that slows down."
        ),
    )


def _waiting(run: LoggedRun, change: Change) -> str:
    """Say how much of the growth is waiting for data, where the log has it: the cause then is the input."""
    waits = {point.order: point.value for point in run.get("data_time_s").finite}
    parts = [[waits[p.order] for p in part if p.order in waits] for part in (change.before, change.after)]
    if min(len(part) for part in parts) < LEAST // 3:
        return "."
    grown = median(parts[1]) - median(parts[0])
    return f"; of the growth, {grown / (_middle(change.after) - _middle(change.before)):.0%} is waiting for data."


def _between_thirds(points: list[Point]) -> Change | None:
    first, middle, last = thirds(points)
    between = BETWEEN * _middle(first) < _middle(middle) < _middle(last) / BETWEEN
    gradual = between and trend([point.value for point in points]) >= TREND
    change = Change(first, last, gradual)
    apart = _quantile(last, 0.25) > _quantile(first, 0.75)
    return change if apart and change.ratio >= _bound(change) else None


def _at_the_end(points: list[Point]) -> Change | None:
    """A slow-down that began after two thirds of the run and holds to its end."""
    for share in LATE:
        late = max(LEAST_LATE, int(share * len(points)))
        change = Change(points[:-late], points[-late:], gradual=False)
        if len(points) < 3 * late or change.ratio < RATIO:
            continue
        if _quantile(change.after, 0.1) > _quantile(change.before, 0.9):
            return change
    return None


def _bound(change: Change) -> float:
    return GRADUAL if change.gradual else RATIO


def _timed(run: LoggedRun) -> tuple[list[Point], bool]:
    """Return the step times after the warm-up, and whether they are only those between lines."""
    points = [point for point in run.get("step_time_s").finite if point.value > 0]
    if not points:
        rates = [point for point in run.get("throughput").finite if point.value > 0]
        points = [point._replace(value=1.0 / point.value) for point in rates]
    stamped = not points
    points = points or run.get("stamped_step_time_s").finite
    return points[max(1, int(WARM_UP * len(points))) :], stamped


def _does_more(run: LoggedRun) -> bool:
    """Whether the throughput in samples or tokens holds while the steps take longer: longer inputs, no slow-down."""
    rates = [point.value for point in run.get("throughput").finite if point.value > 0]
    if not run.get("step_time_s").finite or len(rates) < LEAST:
        return False
    first, _, last = thirds(rates[int(WARM_UP * len(rates)) :])
    return median(last) > median(first) / 1.2


def _middle(points: Sequence[Point]) -> float:
    return median(point.value for point in points)


def _quantile(points: Sequence[Point], share: float) -> float:
    return quantile([point.value for point in points], share)


def can_judge(run: LoggedRun) -> bool:
    """Enough step times, or rates."""
    return len(_timed(run)[0]) >= LEAST


RULE = LogRule(
    category="host_overhead",
    can_judge=can_judge,
    needs=f"{LEAST} step times",
    to_log="the time of each step or the throughput, or the time and the step in each line",
    judge=judge,
)
