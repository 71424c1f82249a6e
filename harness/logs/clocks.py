"""How long did each step take, where a log holds a clock? Columns that run on, and the times of the lines."""

from __future__ import annotations

import re
from datetime import date
from itertools import pairwise
from statistics import median

from harness.logs.curves import quantile, thirds
from harness.logs.normal import Point, Series

LEAST = 4
"""Points below which a clock cannot be told from a step that gets slower."""

GROWTH = 0.2
"""Median increase, as a share of the first value, from which a column that only grows is a clock: one that counts from
the start grows by about its first value each time (1), a step time that doubles over 20 prints by 0.05."""

GREW = 5.0
"""Last over first value of a column that never falls, from which it is a clock whose first step was slow: steps that
get slower do so by less, and not every single time."""

GREW_VAGUE = 2.0
"""The same for a name that does not say whether it is a clock."""

LEAST_STRICT = 8
"""Points that a column which never falls must have before its growth as a whole says that it is a clock."""

VAGUE = {"time", "time (s)", "time_s", "t", "seconds"}
"""Names that do not say whether they count from the start or tell of one step."""

MILLISECONDS = 1e11
"""A clock that began in 1970 counts 1.7e9 seconds by now, or 1.7e12 milliseconds."""

LEAST_STAMPED = 20
"""Intervals of stamped lines; each third has six."""

TICKS = 10
"""Ticks of the clock that an interval must have: the error of one tick is then 10 % of it at most."""

REGULAR = 1.5
"""Upper over lower quartile of the intervals within a third of the run: what stands between two lines (an evaluation,
a checkpoint, a pause) is then rare, and the median tells of the steps. It is the bound of a drift as well."""

STAMP = re.compile(r"(?:(\d{4})[-/](\d\d)[-/](\d\d)[T ])?(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?")


def is_running(values: list[float], *, vague: bool = False) -> bool:
    """Whether the values are those of a clock: they never fall, and grow too much to be steps that get slower.

    ``vague`` is a name that may be either, ``time``: steps that are measured vary, so a few of them fall.
    """
    if len(values) < LEAST or values[0] < 0:
        return False
    rises = [b - a for a, b in pairwise(values)]
    falls = sum(rise < 0 for rise in rises)
    first = max(values[0], 1e-12)
    if median(rises) <= 0 or falls > len(rises) // 50:
        return False
    grew = falls == 0 and len(values) >= LEAST_STRICT and values[-1] >= (GREW_VAGUE if vague else GREW) * first
    return values[0] > MILLISECONDS / 1000 or median(rises) >= GROWTH * first or grew


def as_intervals(series: Series) -> Series | None:
    """Return the time of each step of a running clock; None when it is no such clock."""
    points = series.finite
    if not is_running([point.value for point in points], vague=series.key.lower() in VAGUE):
        return None
    unit = 1000.0 if points[0].value > MILLISECONDS else 1.0
    return Series("step_time_s", f"{series.key} (differences)", _intervals(_advancing(points), unit))


def seconds_of(stamp: str) -> float | None:
    """Return the time at the start of a line in seconds, from an arbitrary zero; None when it is no time."""
    match = STAMP.search(stamp)
    if not match:
        return None
    year, month, day, hour, minute, second, fraction = match.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() if year else 0
    except ValueError:
        return None
    return days * 86400 + int(hour) * 3600 + int(minute) * 60 + int(second or 0) + float(f"0.{fraction or 0}")


def stamped_intervals(series: Series) -> Series | None:
    """Return the time of each step between stamped lines; None when the lines are too coarse or too irregular."""
    points = _advancing([point for point in series.finite if point.step is not None])
    if len(points) <= LEAST_STAMPED:
        return None
    tick = 0.001 if any(point.value % 1 for point in points) else 1.0 if any(p.value % 60 for p in points) else 60.0
    usual = median(b.value - a.value for a, b in pairwise(points))
    every = 1 if usual >= TICKS * tick else int(TICKS * tick / usual) + 1 if usual > 0 else len(points)
    times = [time for time in _intervals(points[::every], 1.0) if time.value > 0]
    if len(times) < LEAST_STAMPED:
        return None
    regular = all(
        quantile(part, 0.75) <= REGULAR * quantile(part, 0.25) for part in thirds([time.value for time in times])
    )
    return Series("stamped_step_time_s", "the times of the lines", times) if regular else None


def _advancing(points: list[Point]) -> list[Point]:
    """Return the first point of each step: ranks and evaluations print more of one step."""
    kept: list[Point] = []
    for point in points:
        if not kept or point.step is None or point.step != kept[-1].step:
            kept.append(point)
    return kept


def _intervals(points: list[Point], unit: float) -> list[Point]:
    """Return the time of each step between neighbours; where a counter begins anew, nobody knows what was done."""
    known = [(a, b) for a, b in pairwise(points) if b.value >= a.value]
    return [_between(a, b, unit) for a, b in known if a.step is None or b.step is None or b.step > a.step]


def _between(before: Point, after: Point, unit: float) -> Point:
    steps = 1.0
    if before.step is not None and after.step is not None and after.step > before.step:
        steps = after.step - before.step
    return after._replace(value=(after.value - before.value) / unit / steps)
