"""Validation gets worse, or stands far behind, while training goes on improving.

A gap alone proves little: on honest data with few groups a gap above 10 points is common. What counts is that
validation turns over several evaluations while the training loss still falls, or that a large gap keeps growing.
"""

from __future__ import annotations

from statistics import median

from harness.diagnose.base import Match
from harness.diagnose.finding import NO_BOUND
from harness.logs.base import Doubt, LogRule, Verdict, evidence_at, evidence_of
from harness.logs.curves import scatter, smoothed, thirds
from harness.logs.normal import LoggedRun, Point, Series, where
from harness.logs.rules._validation import (
    NOISES,
    SLOW,
    STALLED,
    WORSE,
    Turn,
    improves,
    loss_around,
    loss_at_end,
    loss_near,
    metric_moves,
    slow_turn_of,
    turn_of,
)

LEAST = 4
"""Evaluations; a turn needs one before it and two after."""


FALLS = 0.05
"""Fall of the training loss while validation turns, as a share of it."""

GAP = 0.5
"""Validation loss above training loss, as a share of the training loss, that is a large gap: with dropout or
augmentation the two lie within a fifth of each other."""

GREW = 1.5
"""Gap at the end over the gap when validation stalled; a gap that was there from the start is another thing."""

LEAST_GAP = 0.2
"""The same as a number: losses near 0 differ by large shares."""

SLOW_FALLS = 0.2
"""The same during a slow turn."""

SLOW_GAP = 0.3
"""Validation loss above training loss at the end of a slow turn, as a share of the training loss."""


STALLS_BY = 0.6
"""Share of the evaluations by which it must have stalled: after the last drop of a learning rate training improves
alone for up to a third of a run, and that is healthy."""

STALL_FALLS = 0.3
"""Fall of the training loss since then, as a share of it."""

ONE_EVALUATION = 0.5
"""Gap as a share of the training loss at which a single evaluation is a doubt."""

CONFIRM = "Evaluate the checkpoint of the best validation loss and the last one on the same held-out data."
ACTION = (
    "Keep the best checkpoint and stop early; then more data, augmentation, weight decay, dropout, or a smaller model."
)


def judge(run: LoggedRun) -> Verdict:
    """Ask for a turn of the validation loss, then for a gap that grows, then of the metric."""
    if run.traits & {"rivals", "rl"}:
        return None
    val = run.get("val_loss").finite
    if len(val) < LEAST:
        return _few(run, val) if val else _by_metric(run)
    turn = turn_of(val)
    if turn:
        return _turned(run, turn, FALLS)
    slow = slow_turn_of(val)
    found = _turned(run, slow, SLOW_FALLS) if slow and _has_gap(run, slow) else None
    return found or _stalled(run, val)


def _has_gap(run: LoggedRun, turn: Turn) -> bool:
    after = loss_at_end(run)
    return after is not None and turn.end - after >= SLOW_GAP * abs(after)


def _turned(run: LoggedRun, turn: Turn, falls: float) -> Verdict:
    before, after = loss_around(run, turn.best), loss_at_end(run)
    if before is None or after is None:
        return Doubt(
            "the training loss around the best validation loss", "log the training loss beside the validation loss"
        )
    if after > before - falls * abs(before):
        return _alone(turn, before, after) if falls == FALLS else None
    better = _still_better(run, turn)
    share = f", {turn.end / turn.level - 1:+.0%}," if turn.level > 0 else f", by {turn.end - turn.level:.3g},"
    rise = WORSE if falls == FALLS else SLOW
    return Match(
        confidence=0.6 if better else 0.9 if falls == FALLS else 0.7,
        summary=(
            f"Validation loss is best with {turn.best.value:.4g} ({where(turn.best)}) and rises to about "
            f"{turn.end:.4g} ({where(turn.last)}){share} while training loss falls from {before:.4g} to {after:.4g}"
            + (f"; {better} still improves, so the model is mostly too sure of itself." if better else ".")
        ),
        evidence=[
            evidence_at(run, "last_val_loss", turn.last, "", f"{rise:.0%} or more above the best"),
            evidence_at(run, "best_val_loss", turn.best, "", NO_BOUND),
            evidence_of(run, "train_loss", after, f"{falls:.0%} or more below {before:.4g}", turn.last.line),
        ],
        confirm=CONFIRM,
        action=ACTION,
    )


def _alone(turn: Turn, before: float, after: float) -> Doubt | None:
    """Validation gets worse and training does not improve: no memorising; what else it is, the log does not tell."""
    if after > before + FALLS * abs(before):
        return None  # both get worse: that is a divergence, or none
    return Doubt(
        f"why validation loss rises from {turn.best.value:.4g} ({where(turn.best)}) to about {turn.end:.4g} while "
        f"training loss stands at {after:.4g}",
        "evaluate on a part of the training data too: worse there as well points to the evaluation, not to the fit",
    )


def _still_better(run: LoggedRun, turn: Turn) -> str:
    """Return the validation metric when its end is clearly better than at the best validation loss."""
    metric = run.get("val_metric")
    sign = 1.0 if metric.more_is_better else -1.0
    then = [sign * p.value for p in metric.finite if p.order <= turn.best.order][-3:]
    now = [sign * p.value for p in metric.finite if p.order > turn.best.order][-3:]
    if not then or not now or metric.key.lower() in {"ppl", "perplexity"}:
        return ""
    return metric.key if median(now) > max(then) + 0.01 * abs(max(then)) else ""


def _stalled(run: LoggedRun, val: list[Point]) -> Match | None:
    """A large gap that grew, while validation has long stood still and training improved much."""
    if len(val) < 2 * LEAST or len(run.get("loss").finite) < 2 * LEAST:
        return None
    values = [point.value for point in val]
    curve, sigma = smoothed(values, 3), scatter(values[len(values) // 3 :])
    best = min(curve)
    near = best + min(max(STALLED * abs(best), 1.5 * sigma), 2 * STALLED * abs(best))
    stall = next(index for index, value in enumerate(curve) if value <= near)
    middle, end = val[stall], median(curve[-3:])
    before, after = loss_around(run, middle), loss_at_end(run)
    if stall > STALLS_BY * len(val) or before is None or after is None or after <= 0:
        return None
    if improves(values[stall:], sigma) or metric_moves(run, stall / len(val)) or _in_one_step(run, middle):
        return None
    gap, early = end - after, max(curve[stall] - before, 0.0)
    if gap < max(GAP * after, LEAST_GAP) or after > (1 - STALL_FALLS) * before or gap < GREW * early:
        return None
    return Match(
        confidence=0.7,
        summary=(
            f"Training loss falls from {before:.4g} ({where(middle)}) to {after:.4g} while validation loss stands: "
            f"{curve[stall]:.4g} then, {end:.4g} at the end ({where(val[-1])}). The gap has grown from {early:.3g} to "
            f"{gap:.3g}: what is still learned does not generalise."
        ),
        evidence=[
            evidence_of(run, "train_val_gap", gap, f">= {GAP:g} x the training loss", val[-1].line),
            evidence_of(run, "best_val_loss", best, f"reached within {STALLED:g} by {where(middle)}", middle.line),
        ],
        confirm=CONFIRM,
        action=ACTION,
    )


def _in_one_step(run: LoggedRun, since: Point) -> bool:
    """Whether training fell at once and then stood: a drop of the learning rate, after which both have settled."""
    losses = [point.value for point in run.get("loss").finite if point.order > since.order]
    first, middle, last = (median(part or [0.0]) for part in thirds(losses))
    return middle > first * (1 - FALLS) or last > middle * (1 - FALLS)


def _few(run: LoggedRun, val: list[Point]) -> Doubt | None:
    """A large gap in too few evaluations."""
    near = loss_near(run, val[-1])
    if near is None or val[-1].value - near < max(ONE_EVALUATION * abs(near), LEAST_GAP):
        return None
    return Doubt(
        f"a trend of the validation loss: {len(val)} evaluation(s), {val[-1].value:.4g} ({where(val[-1])}) "
        f"against a training loss of {near:.4g} around it",
        f"log at least {LEAST} evaluations over the run",
    )


def _by_metric(run: LoggedRun) -> Verdict:
    """Without a validation loss: the validation metric falls from its best while the training metric rises."""
    val, train = run.get("val_metric"), run.get("train_metric")
    if len(val.finite) < 2 * LEAST or len(train.finite) < 2 * LEAST or not val.more_is_better:
        return None
    curve = smoothed(val.values, 3)
    index = max(range(len(curve)), key=curve.__getitem__)
    drop, sigma = curve[index] - median(val.values[-3:]), scatter(val.values)
    grew = median(train.values[-3:]) - median(_until(train, val.finite[index].order))
    if index > len(curve) - 4 or drop < max(WORSE * abs(curve[index]), NOISES * sigma) or grew <= 0:
        return None
    best, last = val.finite[index], val.finite[-1]
    return Match(
        confidence=0.7,
        summary=f"{val.key} falls from {curve[index]:.4g} ({where(best)}) by {drop:.3g} while {train.key} still rises.",
        evidence=[
            evidence_at(run, val.key, last, "", f"<= {1 - WORSE:g} x the best"),
            evidence_at(run, f"best {val.key}", best, "", NO_BOUND),
        ],
        confirm=CONFIRM,
        action=ACTION,
    )


def _until(series: Series, order: int) -> list[float]:
    return [p.value for p in series.finite if p.order <= order][-3:] or series.values[:1]


def can_judge(run: LoggedRun) -> bool:
    """Enough evaluations beside a training loss, or beside a training metric."""
    losses = len(run.get("val_loss").finite) >= LEAST and len(run.get("loss").finite) >= LEAST
    metrics = len(run.get("val_metric").finite) >= 2 * LEAST and len(run.get("train_metric").finite) >= 2 * LEAST
    return (losses or metrics) and not run.traits & {"rivals", "rl"}


RULE = LogRule(
    category="generalisation",
    can_judge=can_judge,
    needs=f"{LEAST} evaluations beside the training loss",
    to_log="the validation loss at least four times",
    judge=judge,
)
