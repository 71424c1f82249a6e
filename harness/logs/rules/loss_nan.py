"""The loss is not a number, or the gradients are not and the trainer prints the loss as exactly 0."""

from __future__ import annotations

import math
from collections.abc import Callable

from harness.diagnose.base import Match
from harness.logs.base import Doubt, LogRule, Verdict, evidence_at
from harness.logs.normal import LoggedRun, Point, Series, where

LEAST_ZEROS = 2
"""Losses of exactly 0 beside gradients that are not finite: one alone may be a skipped step of a loss scaler."""

SUDDEN = 0.05
"""Share of the first loss from which a fall to exactly 0 is no learning: a loss that is learned goes through the small
values first."""

LEAST_SUDDEN = 5
"""Losses of exactly 0 up to the end, where no gradients are printed beside them."""

LEAST_GRADIENTS = 5
"""Gradients that are not finite at the end while the loss is finite: a loss scaler skips a few such steps, not all."""

ACTION = (
    "Find the first tensor that is not finite (torch.autograd.set_detect_anomaly, or check the batch of that step), "
    "lower the learning rate or warm up longer, and use bf16 in place of fp16."
)


def judge(run: LoggedRun) -> Verdict:
    """Look for losses that stay lost, then for zeros that hide them, then for lost gradients."""
    named = ["loss", "val_loss"] if "loss" in run.series else ["val_loss"]
    series = [run.get(name) for name in named] + list(run.parts.values())
    for one in series:
        found = _lost(run, one)
        if found:
            return found
    return _hidden(run) or _gradients(run) or _only_once(run)


def _lost(run: LoggedRun, series: Series) -> Match | None:
    """The last values are not finite, and there are two of them or numbers before."""
    count = 0
    for point in reversed(series.points):
        if math.isfinite(point.value):
            break
        count += 1
    if not count or len(series.points) < 2 or (series.name == "val_loss" and count < 2):
        return None
    if series.name == "val_loss" and series.tabled and not series.finite and run.get("loss").finite:
        return None  # a column of empty cells: nothing was evaluated
    first = series.points[-count]
    before = series.points[-count - 1] if count < len(series.points) else None
    came = f" after {before.value:.4g} ({where(before)})" if before else " from the first value on"
    return Match(
        confidence=0.95 if count >= 2 else 0.9,
        summary=(
            f"{series.key} is {first.value} at {where(first)}{came}; {count} value(s) up to the end are not finite."
        ),
        evidence=[evidence_at(run, series.key, first, "", "not a finite number, up to the end")],
        confirm="Run again from just before this step with anomaly detection on: the first bad operation is named.",
        action=ACTION,
    )


def _hidden(run: LoggedRun) -> Match | None:
    """The loss is exactly 0 to the end: with gradients that are nan, or out of the blue."""
    loss, gradients = run.get("loss"), {p.order: p for p in run.get("grad_norm").points}
    zeros = _trailing(loss.points, lambda point: point.value == 0.0)
    lost = [gradients[p.order] for p in zeros if p.order in gradients and not math.isfinite(gradients[p.order].value)]
    if len(lost) >= LEAST_ZEROS and len(lost) >= 0.9 * len(zeros):
        return Match(
            confidence=0.95,
            summary=(
                f"From {where(zeros[0])} on the loss is exactly 0 while grad_norm is {lost[0].value}: trainers "
                "print a loss "
                "that is nan as 0; this is no convergence."
            ),
            evidence=[
                evidence_at(run, "loss", zeros[0], "", "= 0 exactly, up to the end"),
                evidence_at(run, "grad_norm", lost[0], "", "not a finite number"),
            ],
            confirm="Print the loss of each step (logging_nan_inf_filter=False): it is nan.",
            action=ACTION,
        )
    before = loss.finite[: -len(zeros)] if zeros else []
    if len(zeros) < LEAST_SUDDEN or len(before) < 2 or any(p.order in gradients for p in zeros):
        return None
    if before[-1].value < SUDDEN * abs(before[0].value):
        return None
    return Match(
        confidence=0.6,
        summary=(
            f"The loss falls from {before[-1].value:.4g} to exactly 0 at {where(zeros[0])} and stays: most often it "
            "is nan."
        ),
        evidence=[evidence_at(run, "loss", zeros[0], "", f"= 0 exactly after >= {SUDDEN:g} of the first loss")],
        confirm="Print the loss and the norm of the gradients of each step.",
        action=ACTION,
    )


def _gradients(run: LoggedRun) -> Match | None:
    """The gradients are lost to the end; while a loss scale is calibrated they are infinite at the start only."""
    gradients = run.get("grad_norm").points
    lost = _trailing(gradients, lambda point: not math.isfinite(point.value))
    only_infinite = all(math.isinf(point.value) for point in lost)
    if len(lost) < LEAST_GRADIENTS or (only_infinite and len(lost) == len(gradients)):
        return None
    return Match(
        confidence=0.6,
        summary=(
            f"grad_norm is {lost[0].value} at {where(lost[0])} and not finite in all {len(lost)} prints from there on: "
            "the steps after it learn nothing, or are skipped."
        ),
        evidence=[
            evidence_at(run, "grad_norm", lost[0], "", f"not a finite number in the last >= {LEAST_GRADIENTS} prints")
        ],
        confirm="Print which parameter's gradient is not finite first.",
        action=ACTION,
    )


def _only_once(run: LoggedRun) -> Doubt | None:
    """Some losses were lost and numbers came back: a bad batch, or a step that a scaler skipped."""
    loss = run.get("loss")
    lost = [point for point in loss.points[1:] if not math.isfinite(point.value)]  # the first is a mean of nothing yet
    if not lost:
        return None
    first = where(lost[0])
    return Doubt(
        f"why {len(lost)} of {len(loss.points)} losses are not finite (first at {first}) while later ones are",
        "log the loss and the skipped steps of every step",
    )


def _trailing(points: list[Point], fits: Callable[[Point], bool]) -> list[Point]:
    count = 0
    for point in reversed(points):
        if not fits(point):
            break
        count += 1
    return points[len(points) - count :]


def can_judge(run: LoggedRun) -> bool:
    """Five losses of any kind: fewer say nothing about the rest."""
    return any(len(series.points) >= 5 for series in [run.get("loss"), run.get("val_loss"), *run.parts.values()])


RULE = LogRule(
    category="precision", can_judge=can_judge, needs="5 losses", to_log="the loss of every step", judge=judge
)
