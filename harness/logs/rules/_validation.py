"""What does the validation curve do: turn, stand, or go on, and what does training do around it?

Shared by the rule for overfitting; no rule of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from harness.logs.curves import scatter, smoothed, thirds, trend
from harness.logs.normal import LoggedRun, Point

WORSE = 0.1
"""Rise of the validation loss above its best: early stopping costs about 2 %, 10 % is beyond the usual wobble."""

NOISES = 3.0
"""Noises of the validation curve that the rise must exceed."""

SLOW = 0.04
"""Rise of a slow turn: twice what early stopping costs. So small a rise needs a trend, a gap, and training that falls
by SLOW_FALLS meanwhile."""

TREND = 2.5
"""Mann-Kendall statistic of the evaluations after the best: 1 of 160 curves without a trend reaches it."""

LEAST_SCORES = 4
"""Scores from which it is asked whether they go on improving."""

STALLED = 0.02
"""Distance from its best, as a share, within which the validation loss has stalled."""


@dataclass(frozen=True)
class Turn:
    """The validation curve around its best."""

    best: Point
    last: Point
    level: float
    """Of the smoothed curve."""
    end: float


def turn_of(val: list[Point]) -> Turn | None:
    """Return the turn when the end lies clearly above the best, for two evaluations at least."""
    values = [point.value for point in val]
    curve = smoothed(values, max(3, len(values) // 10)) if len(values) >= 8 else values
    index = min(range(len(curve)), key=curve.__getitem__)
    after = values[index + 1 :]
    if len(after) < 2 or curve[index] == 0:
        return None
    level, end = curve[index], median(values[-max(2, min(5, len(after) // 2)) :])
    spread = scatter(values) if len(values) >= 8 else 0.0
    scale = scale_of(curve, level)
    bound = level + max(WORSE * scale, NOISES * spread)
    late = after[len(after) // 2 :]
    if end < bound or min(late) < level + WORSE / 2 * scale or _coming_back(after, level):
        return None
    best = min(val[max(0, index - 1) : index + 2], key=lambda point: point.value)
    return Turn(best, val[-1], level, end)


def scale_of(curve: list[float], level: float) -> float:
    """Return what a rise is a share of: the level; below zero, where a level has no meaning, what was learned."""
    return level if level > 0 else curve[0] - level


def slow_turn_of(val: list[Point]) -> Turn | None:
    """Return a turn that is small but lasts: a trend over a third of the evaluations, beyond the noise of both ends."""
    values = [point.value for point in val]
    curve = smoothed(values, max(3, len(values) // 10))
    index = min(range(len(curve)), key=curve.__getitem__)
    after = values[index + 1 :]
    if len(after) < len(values) / 3 or curve[index] == 0 or trend(after) < TREND:
        return None
    late = after[-max(2, len(after) // 3) :]
    around = values[max(0, index - 1) : index + 2]
    level, end = sum(around) / len(around), sum(late) / len(late)
    error = scatter(values) * (1 / len(late) + 1 / len(around)) ** 0.5
    if end - level < max(SLOW * scale_of(curve, level), NOISES * error):
        return None
    return Turn(min(val[max(0, index - 1) : index + 2], key=lambda point: point.value), val[-1], level, end)


def _coming_back(after: list[float], level: float) -> bool:
    """Whether the validation loss is falling again: a bump of a high learning rate, not a turn."""
    peak = max(after)
    return len(after) >= 4 and median(after[-2:]) - level < 0.5 * (peak - level)


def loss_around(run: LoggedRun, point: Point) -> float | None:
    """Return the training loss up to an evaluation: of the last prints, or of the last one where there are few."""
    losses = [p for p in run.get("loss").finite if p.order <= point.order][-5:]
    losses = losses if len(run.get("loss").finite) > 3 * len(run.get("val_loss").finite) else losses[-1:]
    return median(p.value for p in losses) if losses else None


def loss_at_end(run: LoggedRun) -> float | None:
    """Return the training loss at the end of the run: of the last five prints, or of two where there are few."""
    many = len(run.get("loss").finite) > 3 * len(run.get("val_loss").finite)
    values = run.get("loss").values[-5 if many else -2 :]
    return median(values) if values else None


def improves(values: list[float], sigma: float) -> bool:
    """Whether the last third lies below the first by more than STALLED, or than their errors."""
    first, _, last = thirds(values)
    if not first:
        return True
    fall, error = sum(first) / len(first) - sum(last) / len(last), sigma * (2 / len(first)) ** 0.5
    return bool(fall > max(STALLED * abs(values[-1]), 2 * error))


def metric_moves(run: LoggedRun, share: float) -> bool:
    """Whether the validation metric went on improving after this share of the run."""
    metric = run.get("val_metric")
    values = [value if metric.more_is_better else -value for value in metric.values]
    if len(values) < LEAST_SCORES:
        return False
    curve = smoothed(values, 3)
    then = max(curve[: max(1, int(share * len(curve)) + 1)])
    return bool(median(curve[-3:]) > then + STALLED * abs(then))


def loss_near(run: LoggedRun, point: Point) -> float | None:
    """Return the training loss around an evaluation, two prints on either side: one before training began has none."""
    losses = run.get("loss").finite
    before = [p.value for p in losses if p.order <= point.order][-2:]
    after = [p.value for p in losses if p.order > point.order][:2]
    return median(before + after) if before or after else None
