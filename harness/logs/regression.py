"""Is a run worse than its reference, beyond the noise of both curves?"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from statistics import median

from harness.diagnose.finding import NO_BOUND, Category, Diagnosis, Finding, Missing
from harness.diagnose.known import Known, parted
from harness.logs.base import evidence_of
from harness.logs.curves import MAD_TO_SIGMA, smoothed, tail, width_of
from harness.logs.normal import Log, LoggedRun, Point, Series, where

LEAST = 5
"""Points of each curve."""

NOISES = 3.0
"""Standard errors by which the ends must differ: 1 of 700 equal pairs does so by chance."""

WORSE = 0.02
"""Relative difference below which a change is of no interest: two seeds of one training differ by 1 to 2 %."""

COMPARED: tuple[tuple[str, Category], ...] = (
    ("loss", "precision"),
    ("val_loss", "generalisation"),
    ("val_metric", "generalisation"),
)
"""What is compared, and where to look first when it alone is worse."""


@dataclass(frozen=True)
class End:
    """The end of a curve: its level, how far it scatters, and its last point."""

    level: float
    error: float
    last: Point


WORSE_THAN = "worse_than_reference"
"""The cause of a log that is worse than the one it is compared with: which change it was, the logs do not say."""


def regressions(suspect: Log, reference: Log, known: Collection[Known] = ()) -> Diagnosis:
    """Compare the last run of both logs; a diagnosis with what is worse, or with what could not be compared."""
    if not suspect.runs or not reference.runs:
        return Diagnosis(status="not_enough_evidence", missing=[_missing("any number of training in both files")])
    mine, other = suspect.runs[-1], reference.runs[-1]
    found, checked = [], []
    for name, category in COMPARED:
        pair = _ends(mine.get(name), other.get(name))
        if pair:
            checked.append(f"{name} against the reference")
            found += _judged(mine, other, name, category, pair)
    if not checked:
        return Diagnosis(status="not_enough_evidence", missing=[_missing(f"{LEAST} points of one curve in both files")])
    new, old = parted(found[:1], known)
    return Diagnosis(status="diagnosed" if new else "healthy", findings=new, checked=checked, known=old)


def _ends(mine: Series, other: Series) -> tuple[End, End] | None:
    """Return both ends at the last step that both have."""
    if mine.more_is_better != other.more_is_better or min(len(mine.finite), len(other.finite)) < LEAST:
        return None
    stops = [
        points[-1].step if points[-1].step is not None else points[-1].epoch for points in (mine.finite, other.finite)
    ]
    shared = min(stop for stop in stops if stop is not None) if None not in stops else None
    ends = [_end([point for point in series.finite if _within(point, shared)]) for series in (mine, other)]
    return (ends[0], ends[1]) if ends[0] and ends[1] else None


def _within(point: Point, stop: float | None) -> bool:
    position = point.step if point.step is not None else point.epoch
    return stop is None or position is None or position <= stop


def _end(points: list[Point]) -> End | None:
    if len(points) < LEAST:
        return None
    values = [point.value for point in points]
    late = list(tail(values, 0.1, LEAST))
    around = smoothed(values, width_of(values))
    scatter = [abs(a - b) for a, b in zip(values[len(values) // 2 :], around[len(values) // 2 :], strict=True)]
    sigma = max(MAD_TO_SIGMA * median(scatter), 0.25 * (max(late) - min(late)))
    return End(median(late), sigma * 1.25 / len(late) ** 0.5, points[-1])


def _judged(run: LoggedRun, other: LoggedRun, name: str, category: Category, pair: tuple[End, End]) -> list[Finding]:
    mine, reference = pair
    series = run.get(name)
    worse = (reference.level - mine.level) if series.more_is_better else (mine.level - reference.level)
    bound = max(NOISES * (mine.error**2 + reference.error**2) ** 0.5, WORSE * abs(reference.level))
    if worse <= bound:
        return []
    return [
        Finding(
            category=category,
            cause=WORSE_THAN,
            place=run.source(mine.last.line),
            confidence=0.8 if worse > 2 * bound else 0.6,
            summary=(
                f"{series.key} ends at {mine.level:.4g} ({where(mine.last)}), {reference.level:.4g} in the reference "
                f"({where(reference.last)}): worse by {worse:.3g}, and the noise of both allows {bound:.2g}."
            ),
            evidence=[
                evidence_of(run, f"{name}_regression", worse, f"> {bound:.3g}", mine.last.line),
                evidence_of(other, f"reference_{name}", reference.level, NO_BOUND, reference.last.line),
            ],
            confirm=(
                "Repeat both with two more seeds: a regression is real when it is larger than the spread over seeds."
            ),
            action="Change back one difference between the two runs at a time, the precision first, until it is gone.",
        )
    ]


def _missing(observation: str) -> Missing:
    return Missing(
        observation=observation, needed_for="the comparison", command="log the loss at the same steps in both runs"
    )
