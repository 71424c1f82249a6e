"""The training loss never moves from where it began: at ln(number of classes), or at one and the same number.

A loss that is flat after it has learned is healthy, and so is a fine-tuning whose loss is noisy around its first value.
"""

from __future__ import annotations

import math
from statistics import median

from harness.diagnose.base import Match
from harness.diagnose.finding import NO_BOUND, Evidence
from harness.logs.base import Doubt, LogRule, Verdict, evidence_at, evidence_of
from harness.logs.curves import noise, quantile, thirds
from harness.logs.normal import LoggedRun, Point, where

LEAST = 20
"""Losses; language models leave ln(vocabulary) within tens of steps, classifiers within the first epoch."""

LEAST_EPOCHS = 8
"""Losses that are one an epoch."""

LEAST_FEW = 8
"""Losses that are enough where prints are rare, over LEAST_STEPS steps."""

LEAST_STEPS = 500
"""An epoch has hundreds of steps."""

FLAT = 0.01
"""Change from the first third to the last, as a share of the loss."""

SPREAD = 0.06
"""Distance of the 90 % from the 10 % quantile, as a share of the loss: outputs that say nothing lose much the same."""

SAME = 1e-3
"""Spread, as a share of the loss, at which it is one number whatever it is: batches differ by more."""

ONE_NUMBER = 0.6
"""Share of the losses that are one and the same number at the end of a run that moved at first: dead outputs."""

CLASSES = (
    *range(2, 21),
    27,
    62,
    65,
    100,
    101,
    200,
    365,
    1000,
    30522,
    32000,
    32128,
    50257,
    50304,
    65536,
    128256,
    151936,
)
"""Numbers of classes that are common, and vocabularies; between 20 and these, every loss would match one."""

NEAR = 0.01
"""Relative distance from ln(classes) up to 10 classes; a third of it above, where they lie closer: a fine-tuning that
begins where it ends would else meet one of them every second time."""

UNMOVED = 0.03
"""Spread, as a share, below which a loss at no known level that does not move from the start is a doubt; fine-tunings
scatter by 5 % and more."""

BATCHES = tuple(2**power for power in range(5, 17))
"""A contrastive loss begins at ln(batch), and may stay near it."""

FROM_START = 0.2
"""First step over last up to which the log holds the start of the run."""


def judge(run: LoggedRun) -> Verdict:
    """Ask whether the loss is flat from the start, then whether the level says what it is stuck at."""
    points = run.get("loss").finite
    if not can_judge(run) or not _from_start(points):
        return None
    values = [point.value for point in points]
    values, points = _without_start(values, points)
    level = median(values)
    first, _, last = (median(part) for part in thirds(values))
    spread = quantile(values, 0.9) - quantile(values, 0.1)
    if level <= 0 or abs(first - last) > FLAT * level or spread > SPREAD * level or min(values) < 0.8 * level:
        return None
    if first - last > 2 * noise(values) and spread > SAME * level:
        return None
    return _named(run, points, level, spread)


def _named(run: LoggedRun, points: list[Point], level: float, spread: float) -> Verdict:
    classes, chance = _classes(level), _at_chance(run, level)
    chance = None if chance is False and spread <= SAME * level else chance
    if chance is False:
        return None
    if not classes and spread > SAME * level:
        return _unmoved(points, level) if spread <= UNMOVED * level and not run.traits & {"contrastive"} else None
    batch = _near(level, BATCHES, NEAR / 2)
    if batch and classes and abs(level - math.log(classes)) < abs(level - math.log(batch)):
        batch = None
    if chance is None and (run.traits & {"contrastive"} or (batch and spread > SAME * level)):
        return Doubt(
            f"whether the loss is stuck at ln({batch or classes}) or a contrastive loss that is healthy there",
            "log the accuracy, or a validation metric, with the loss",
        )
    if _warming(run):
        return Doubt("whether the loss falls once the learning rate has warmed up", "log beyond the warm-up")
    at = f"ln({classes}) = {math.log(classes):.4g}" if classes else f"{level:.4g}"
    return Match(
        confidence=0.9 if classes and chance else 0.75 if classes else 0.65,
        summary=(
            f"The loss stays at {level:.4g} from {where(points[0])} to {where(points[-1])}"
            + (
                f", which is {at}: the outputs say nothing about the {classes} classes."
                if classes
                else ": it never moves."
            )
        ),
        evidence=[
            evidence_of(run, "loss", level, f"within {NEAR:g} of {at}" if classes else "one number", points[0].line),
            evidence_of(run, "loss_spread", spread / level, f"<= {SPREAD:g}", points[-1].line, "share"),
            *_metric_evidence(run),
        ],
        confirm="Train on one batch only: a program that works brings its loss near 0 within a few hundred steps.",
        action=(
            "Check that the optimizer holds the model's parameters and that their gradients are not 0 or None, "
            "that labels "
            "belong to their inputs, and the learning rate (10 times lower, then higher)."
        ),
    )


def _unmoved(points: list[Point], level: float) -> Doubt | None:
    batch = _near(level, BATCHES, NEAR)
    if batch or len(points) < 2 * LEAST:
        return None
    return Doubt(
        f"whether the loss can fall: it is {level:.4g} from {where(points[0])} to {where(points[-1])}, which is the "
        "logarithm of no common number of classes",
        "log a validation metric with the loss, and train on one batch only: its loss must fall",
    )


def _without_start(values: list[float], points: list[Point]) -> tuple[list[float], list[Point]]:
    """Leave out the start of a loss that then is one and the same number, at ln(classes), for most of the run."""
    same = 0
    for value in reversed(values):
        if abs(value - values[-1]) > SAME / 2 * abs(values[-1]):
            break
        same += 1
    if same < max(LEAST, ONE_NUMBER * len(values)) or not _near(values[-1], CLASSES, SAME):
        return values, points
    return values[-same:], points[-same:]


def _from_start(points: list[Point]) -> bool:
    """Whether the log holds the start: an excerpt of a later part is flat when all is well."""
    first, last = points[0], points[-1]
    if first.step is not None and last.step is not None and last.step > first.step:
        if first.epoch is not None and last.epoch is not None and last.epoch > first.epoch:
            return first.epoch <= 1
        return first.step <= FROM_START * last.step
    return first.epoch is None or first.epoch <= 1


def _classes(level: float) -> int | None:
    return _near(level, CLASSES[:9], NEAR) or _near(level, CLASSES[9:], NEAR / 3)


def _near(level: float, counts: tuple[int, ...], share: float) -> int | None:
    close = [count for count in counts if abs(level - math.log(count)) <= share * math.log(count)]
    return min(close, key=lambda count: abs(level - math.log(count)), default=None)


def _at_chance(run: LoggedRun, level: float) -> bool | None:
    """Whether an accuracy stays at chance; None where none is logged."""
    for name in ("train_metric", "val_metric"):
        series = run.get(name)
        if series.values and "acc" in series.key.lower():
            scale = 100.0 if max(series.values) > 1.5 else 1.0
            chance, accuracy = math.exp(-level), median(series.values[len(series.values) // 2 :]) / scale
            return accuracy <= chance * 1.5 + 0.02
    return None


def _metric_evidence(run: LoggedRun) -> list[Evidence]:
    """Return what tells more of the reason: gradients of exactly 0, and an accuracy at chance."""
    norms = run.get("grad_norm").finite
    if len(norms) >= LEAST and all(point.value == 0 for point in norms):
        return [evidence_at(run, "grad_norm", norms[0], "", "0 in every print: no gradient reaches the parameters")]
    for name in ("train_metric", "val_metric"):
        series = run.get(name)
        if series.finite and "acc" in series.key.lower():
            return [evidence_at(run, series.key, series.finite[-1], "", NO_BOUND)]
    return []


def _warming(run: LoggedRun) -> bool:
    rates = run.get("lr").values
    return (
        len(rates) >= 2
        and rates[-1] == max(rates)
        and rates[-1] > 1.05 * rates[-2 if len(rates) < 10 else -len(rates) // 10]
    )


def can_judge(run: LoggedRun) -> bool:
    """Enough losses with one common goal."""
    points = run.get("loss").finite
    epochs = {point.epoch for point in points}
    by_epoch = len(epochs) >= LEAST_EPOCHS and len(epochs) >= 0.9 * len(points)
    steps = [point.step for point in points if point.step is not None]
    long = len(steps) >= LEAST_FEW and steps[-1] - steps[0] >= LEAST_STEPS
    return (len(points) >= LEAST or by_epoch or long) and not run.traits & {"rivals", "rl"}


RULE = LogRule(
    category="precision",
    can_judge=can_judge,
    needs=f"{LEAST} training losses from the start, or {LEAST_EPOCHS} epochs",
    to_log="the training loss from the first step on",
    judge=judge,
)
