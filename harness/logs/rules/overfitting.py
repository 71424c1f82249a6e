"""Validation gets worse, or stands far behind, while training goes on improving.

A gap alone proves little: on honest data with few groups a gap above 10 points is common. What counts is that
validation turns over several evaluations while the training loss still falls, or that a large gap keeps growing.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from harness.diagnose.base import Match
from harness.logs.base import Doubt, LogRule, Verdict, evidence_at, evidence_of
from harness.logs.curves import noise, smoothed
from harness.logs.normal import LoggedRun, Point, Series, where

LEAST = 4
"""Evaluations; a turn needs one before it and two after."""

WORSE = 0.1
"""Rise of the validation loss above its best: early stopping costs about 2 %, 10 % is beyond the usual wobble."""

NOISES = 3.0
"""Noises of the validation curve that the rise must exceed."""

FALLS = 0.05
"""Fall of the training loss meanwhile, as a share of it."""

GAP = 1.0
"""Validation loss above training loss, as a share of the training loss, that is a large gap."""

LEAST_GAP = 0.2
"""The same as a number: losses near 0 differ by large shares."""

STALLED = 0.02
"""Distance from its best, as a share, within which the validation loss has stalled."""

STALLS_BY = 0.35
"""Share of the evaluations by which it must have stalled: after the last drop of a learning rate training improves
alone for up to a third of a run, and that is healthy."""

ONE_EVALUATION = 0.5
"""Gap as a share of the training loss at which a single evaluation is a doubt."""

CONFIRM = "Evaluate the checkpoint of the best validation loss and the last one on the same held-out data."
ACTION = (
    "Keep the best checkpoint and stop early; then more data, augmentation, weight decay, dropout, or a smaller model."
)


@dataclass(frozen=True)
class Turn:
    """The validation curve around its best."""

    best: Point
    last: Point
    level: float
    """Of the smoothed curve."""
    end: float


def judge(run: LoggedRun) -> Verdict:
    """Ask for a turn of the validation loss, then for a gap that grows, then of the metric."""
    if run.traits & {"rivals", "rl"}:
        return None
    val = run.get("val_loss").finite
    if len(val) < LEAST:
        return _few(run, val) if val else _by_metric(run)
    turn = _turn(val)
    if turn:
        return _turned(run, turn)
    return _stalled(run, val) or None


def _turn(val: list[Point]) -> Turn | None:
    """Return the turn when the end lies clearly above the best, for two evaluations at least."""
    values = [point.value for point in val]
    curve = smoothed(values, max(3, len(values) // 10)) if len(values) >= 8 else values
    index = min(range(len(curve)), key=curve.__getitem__)
    after = values[index + 1 :]
    if len(after) < 2 or curve[index] <= 0:
        return None
    level, end = curve[index], median(values[-max(2, min(5, len(after) // 2)) :])
    spread = noise(values) if len(values) >= 8 else 0.0
    bound = level + max(WORSE * level, NOISES * spread)
    late = after[len(after) // 2 :]
    if end < bound or min(late) < level + WORSE / 2 * level or _coming_back(after, level):
        return None
    best = min(val[max(0, index - 1) : index + 2], key=lambda point: point.value)
    return Turn(best, val[-1], level, end)


def _coming_back(after: list[float], level: float) -> bool:
    """Whether the validation loss is falling again: a bump of a high learning rate, not a turn."""
    peak = max(after)
    return len(after) >= 4 and median(after[-2:]) - level < 0.5 * (peak - level)


def _turned(run: LoggedRun, turn: Turn) -> Verdict:
    before, after = _loss_around(run, turn.best), _loss_at_end(run)
    if before is None or after is None:
        return Doubt(
            "the training loss around the best validation loss", "log the training loss beside the validation loss"
        )
    if after > before * (1 - FALLS):
        return None
    better = _still_better(run, turn)
    return Match(
        confidence=0.6 if better else 0.9,
        summary=(
            f"Validation loss is best with {turn.best.value:.4g} ({where(turn.best)}) and rises to about "
            f"{turn.end:.4g} "
            f"({where(turn.last)}), {turn.end / turn.level - 1:+.0%}, while training loss falls from "
            f"{before:.4g} to {after:.4g}"
            + (f"; {better} still improves, so the model is mostly too sure of itself." if better else ".")
        ),
        evidence=[
            evidence_at(run, "last_val_loss", turn.last, "", f">= {1 + WORSE:g} x the best"),
            evidence_at(run, "best_val_loss", turn.best, "", "told for context"),
            evidence_of(run, "train_loss", after, f"<= {1 - FALLS:g} x {before:.4g}", turn.last.line),
        ],
        confirm=CONFIRM,
        action=ACTION,
    )


def _loss_around(run: LoggedRun, point: Point) -> float | None:
    losses = [p for p in run.get("loss").finite if p.order <= point.order][-5:]
    losses = losses if len(run.get("loss").finite) > 3 * len(run.get("val_loss").finite) else losses[-1:]
    return median(p.value for p in losses) if losses else None


def _loss_at_end(run: LoggedRun) -> float | None:
    many = len(run.get("loss").finite) > 3 * len(run.get("val_loss").finite)
    values = run.get("loss").values[-5 if many else -2 :]
    return median(values) if values else None


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
    curve = smoothed([point.value for point in val], 3)
    best, sigma = min(curve), noise([point.value for point in val])
    stall = next(index for index, value in enumerate(curve) if value <= best + max(STALLED * abs(best), 1.5 * sigma))
    middle, end = val[stall], median(curve[-3:])
    before, after = _loss_around(run, middle), _loss_at_end(run)
    if (
        stall > STALLS_BY * len(val)
        or before is None
        or after is None
        or after <= 0
        or _metric_moves(run, stall / len(val))
    ):
        return None
    gap, early, then = end - after, curve[0] - (_loss_around(run, val[0]) or curve[0]), curve[stall]
    if gap < max(GAP * after, LEAST_GAP) or after > 0.5 * before or gap < 2 * early:
        return None
    return Match(
        confidence=0.7,
        summary=(
            f"Training loss falls to {after:.4g} while validation loss stands at {end:.4g} ({where(val[-1])}; "
            f"{then:.4g} at "
            f"{where(middle)}): the gap of {gap:.3g} has grown over {len(val)} evaluations."
        ),
        evidence=[
            evidence_of(run, "train_val_gap", gap, f">= {GAP:g} x the training loss", val[-1].line),
            evidence_of(run, "best_val_loss", best, f"reached within {STALLED:g} by {where(middle)}", middle.line),
        ],
        confirm=CONFIRM,
        action=ACTION,
    )


def _metric_moves(run: LoggedRun, share: float) -> bool:
    """Whether the validation metric went on improving after this share of the run."""
    metric = run.get("val_metric")
    values = [value if metric.more_is_better else -value for value in metric.values]
    if len(values) < LEAST:
        return False
    curve = smoothed(values, 3)
    then = max(curve[: max(1, int(share * len(curve)) + 1)])
    return median(curve[-3:]) > then + STALLED * abs(then)


def _few(run: LoggedRun, val: list[Point]) -> Doubt | None:
    """A large gap in too few evaluations."""
    after = _loss_at_end(run)
    if after is None or val[-1].value - after < max(ONE_EVALUATION * abs(after), LEAST_GAP):
        return None
    return Doubt(
        f"a trend of the validation loss: {len(val)} evaluation(s), {val[-1].value:.4g} ({where(val[-1])}) "
        "against a training "
        f"loss of {after:.4g}",
        f"log at least {LEAST} evaluations over the run",
    )


def _by_metric(run: LoggedRun) -> Verdict:
    """Without a validation loss: the validation metric falls from its best while the training metric rises."""
    val, train = run.get("val_metric"), run.get("train_metric")
    if len(val.finite) < 2 * LEAST or len(train.finite) < 2 * LEAST or not val.more_is_better:
        return None
    curve = smoothed(val.values, 3)
    index = max(range(len(curve)), key=curve.__getitem__)
    drop, sigma = curve[index] - median(val.values[-3:]), noise(val.values)
    grew = median(train.values[-3:]) - median(_until(train, val.finite[index].order))
    if index > len(curve) - 4 or drop < max(WORSE * abs(curve[index]), NOISES * sigma) or grew <= 0:
        return None
    best, last = val.finite[index], val.finite[-1]
    return Match(
        confidence=0.7,
        summary=f"{val.key} falls from {curve[index]:.4g} ({where(best)}) by {drop:.3g} while {train.key} still rises.",
        evidence=[
            evidence_at(run, val.key, last, "", f"<= {1 - WORSE:g} x the best"),
            evidence_at(run, f"best {val.key}", best, "", "told for context"),
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
