"""The training loss rises and stays far above its best.

Silent on a bump that comes down again: warm-up, a restart of the schedule, a curriculum that gets harder.
"""

from __future__ import annotations

from statistics import median

from harness.diagnose.base import Match
from harness.diagnose.finding import NO_BOUND
from harness.logs.base import LogRule, Verdict, evidence_at
from harness.logs.curves import head, noise, smoothed, tail, trend, width_of
from harness.logs.normal import LoggedRun, where

LEAST = 8
"""Losses; with fewer a rise cannot be told from noise."""

NOISES = 6.0
"""Noises by which the end must lie above the best: the largest of 1000 normal values lies 3.2 above their mean."""

LOST_GAIN = 0.2
"""Share of what was learned that is lost again, beside RATIO: a loss near 0 doubles and has lost next to nothing."""

RATIO = 1.5
"""End over best. A task that gets harder in the middle raises a language-model loss by less than a third."""

CLIMB = 1.3
"""End over best of a loss that goes on to climb, by the trend of all that follows the best."""

CLIMB_SHARE = 0.25
"""Share of the run over which it climbs; a bump of the learning rate is shorter or comes down."""

TREND = 4.0
"""Mann-Kendall statistic of the climb: what has no trend reaches it once in 30 000 times."""

CLIMBS = "goes on to climb"

EXPLODED = 3.0
"""Last losses over the first ones, which are those of a model that knows nothing: above them it is worse than that."""

LEAST_EXPLODED = 3
"""Losses at the end that must all lie there."""

RECOVERED = 0.15
"""Share of the rise that came back between the two halves of what follows it: more is a recovery under way."""


def judge(run: LoggedRun) -> Verdict:
    """Compare the end with the best, and ask whether the loss is on its way back."""
    if run.traits & {"rivals", "rl"}:
        return None
    points = run.get("loss").finite
    values = [point.value for point in points]
    if len(values) < LEAST:
        return None
    curve, sigma = smoothed(values, width_of(values)), noise(values)
    best = min(range(len(curve)), key=curve.__getitem__)
    end, start = median(tail(values)), max(median(head(values, 0.02, 2)), curve[0])
    rise, gain = end - curve[best], start - curve[best]
    if rise <= NOISES * sigma or rise < LOST_GAIN * gain or rise < 0.1 * abs(curve[best]):
        return None
    course = _course(curve, values, best, (start, end))
    if not course:
        return None
    point, last = points[best], points[-1]
    bound = CLIMB if course == CLIMBS else RATIO
    return Match(
        confidence=0.9 if end >= start or end >= 3 * curve[best] > 0 else 0.7,
        summary=(
            f"The loss rises from about {curve[best]:.4g} ({where(point)}) to {end:.4g} ({where(last)}) and {course}; "
            f"it began at {start:.4g}."
        ),
        evidence=[
            evidence_at(
                run, "last_loss", last, "", f">= {bound:g} x the best and > {NOISES:g} noises ({sigma:.2g}) above it"
            ),
            evidence_at(run, "best_loss", point, "", NO_BOUND),
        ],
        confirm="Resume from a checkpoint before the rise with half the learning rate: it must not return.",
        action=(
            "Lower the peak learning rate, warm up longer, clip the gradient norm at 1, and look at the data of that "
            "step."
        ),
    )


def _course(curve: list[float], values: list[float], best: int, ends: tuple[float, float]) -> str:
    """Return what the loss does after its best when that is a divergence, in words; empty when it is none."""
    start, end = ends
    rise, gain = end - curve[best], start - curve[best]
    below_zero = curve[best] <= 0 and rise >= 0.9 * gain > 0
    high = end >= RATIO * curve[best] > 0 or below_zero or end > 1.2 * start > 0
    if high and _stays(curve, best, rise):
        return "stays there"
    return CLIMBS if _climbs(curve, best, end) else "explodes" if _explodes(values) else ""


def _explodes(values: list[float]) -> bool:
    """Whether the last losses are all far above every loss of the start."""
    start = max(head(values, 0.02, 2))
    return min(values[-LEAST_EXPLODED:]) > EXPLODED * start > 0


def _climbs(curve: list[float], best: int, end: float) -> bool:
    """Whether the curve rises from its best to its very end, slowly but by a clear trend."""
    after = curve[best:]
    still = median(after[-len(after) // 4 :]) > median(after[-len(after) // 2 :])
    long = len(after) >= max(LEAST, CLIMB_SHARE * len(curve))
    return long and still and end >= CLIMB * curve[best] > 0 and trend(after[:: width_of(curve) // 2]) >= TREND


def _stays(curve: list[float], best: int, rise: float) -> bool:
    """Whether the curve has been high to the end, for at least 10 % of it, and is not coming back."""
    high = len(curve)
    while high > best + 1 and curve[high - 1] > curve[best] + 0.5 * rise:
        high -= 1
    after = curve[high:]
    if len(after) < max(3, len(curve) // 10):
        return False
    peak = max(after)
    half = len(after) // 2
    came_back = median(after[:half] or after) - median(after[half:])
    return came_back < RECOVERED * rise and peak - median(tail(after)) < 0.5 * (peak - curve[best])


def can_judge(run: LoggedRun) -> bool:
    """Losses that have one common goal, enough of them."""
    return len(run.get("loss").finite) >= LEAST and not run.traits & {"rivals", "rl"}


RULE = LogRule(
    category="precision",
    can_judge=can_judge,
    needs=f"{LEAST} training losses that should fall",
    to_log="the training loss at regular steps",
    judge=judge,
)
