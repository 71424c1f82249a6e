"""The loss scale collapses: step after step is skipped, and no scale is small enough.

A dynamic scale starts too large on purpose and halves until the gradients fit: 2**16 to 2**15, or 17 halvings from
2**32 to 2**15. Later it halves about once in a growth interval (100 to 2000 steps). Both are healthy.
"""

from __future__ import annotations

from itertools import pairwise

from harness.diagnose.base import Match
from harness.diagnose.finding import NO_BOUND
from harness.logs.base import Doubt, LogRule, Verdict, evidence_at, evidence_of
from harness.logs.events import Skip
from harness.logs.normal import LoggedRun, Point, where

FLOOR = 1.0
"""A loss scale at which scaling does nothing any more: gradients that overflow here overflow without it."""

LEAST_SKIPS = 5
"""Halvings down to the floor that make a collapse; a scale that somebody fixed at 1 has none."""

LEAST_SCALE = 256.0
"""Largest value of a column from which it is a loss scale: other things are called scale too."""

STUCK_SKIPS = 40
"""Skips in a row without a success: a calibration from 2**32 ends after at most 32, at a scale of 1."""

SKIPPED_SHARE = 0.2
"""Of the steps of the second half; dynamic scaling skips one in a growth interval, 100 steps or more."""

CONFIRM = (
    "Run the first 50 steps in bf16, or in fp32: when the gradients are finite there, fp16 is to blame; else the model."
)
ACTION = (
    "Use bf16, which needs no loss scale; with fp16 find the tensor that overflows or is nan (large logits, a "
    "mask of -1e9, "
    "a norm without epsilon) and compute that part in fp32. A smaller initial scale is no cure."
)


def judge(run: LoggedRun) -> Verdict:
    """Ask the lines that tell of skips, then the scale as a curve, then the count of skipped steps."""
    return _told(run) or _curve(run) or _counted(run)


def _told(run: LoggedRun) -> Verdict:
    """Find the last unbroken chain of skips, and where it ends."""
    chain = _last_chain(run)
    if not chain:
        return None
    scales = [skip.scale for skip in chain if skip.scale is not None]
    at_floor = sum(scale <= FLOOR for scale in scales)
    floor = at_floor > 0 and scales[-1] <= FLOOR and (len(set(scales)) >= LEAST_SKIPS or at_floor >= LEAST_SKIPS)
    last = chain[-1]
    if last.at_minimum or floor or len(chain) >= STUCK_SKIPS:
        to = f"down to {scales[-1]:g}" if scales else "to its minimum"
        return Match(
            confidence=0.9,
            summary=(
                f"{len(chain)} steps in a row are skipped (lines {chain[0].line} to {last.line}) and the loss "
                f"scale goes {to} "
                "without one success: this is no calibration, the gradients overflow or are nan at any scale."
            ),
            evidence=[
                evidence_of(
                    run, "consecutive_skips", float(len(chain)), f">= {LEAST_SKIPS} down to the floor", chain[0].line
                ),
                evidence_of(run, "loss_scale", scales[-1] if scales else "minimum", f"<= {FLOOR:g}", last.line),
            ],
            confirm=CONFIRM,
            action=ACTION,
        )
    if len(chain) >= LEAST_SKIPS and not _succeeded_after(run, last):
        return Doubt(
            f"whether a step succeeds after the {len(chain)} skipped ones (the last at line {last.line})",
            "the log up to the first steps after the skips",
        )
    return None


def _last_chain(run: LoggedRun) -> list[Skip]:
    """Return the last skips between which the log shows no success: no number of training that is finite."""
    rows = sorted(point.order for name in ("loss", "skipped") for point in run.get(name).finite)
    chain: list[Skip] = []
    for skip in run.skips:
        fresh = chain and (_rose(chain[-1], skip) or _moved_on(run, rows, chain[-1], skip))
        chain = [skip] if fresh else [*chain, skip]
    return chain


def _rose(before: Skip, after: Skip) -> bool:
    """A scale that grew between two skips had its successes."""
    return before.scale is not None and after.scale is not None and after.scale >= before.scale * 1.01


def _moved_on(run: LoggedRun, rows: list[int], before: Skip, after: Skip) -> bool:
    """Whether more rows than one stand between two skips: programs print a line for the skipped step too."""
    return sum(before.order < order < after.order for order in rows[-2000:]) > 1 and not _all_skipped(
        run, before, after
    )


def _all_skipped(run: LoggedRun, before: Skip, after: Skip) -> bool:
    counts = [p.value for p in run.get("skipped").finite if before.order - 50 < p.order < after.order + 50]
    steps = [
        p.step
        for p in run.get("skipped").finite
        if before.order - 50 < p.order < after.order + 50 and p.step is not None
    ]
    return len(counts) > 1 and len(steps) > 1 and counts[-1] - counts[0] >= steps[-1] - steps[0] > 0


def _succeeded_after(run: LoggedRun, last: Skip) -> bool:
    names = ("loss", "skipped", "grad_norm", "throughput")
    return any(point.order > last.order for name in names for point in run.get(name).finite)


def _curve(run: LoggedRun) -> Match | None:
    """The printed scale fell to the floor and is still there at the end."""
    scale = run.get("loss_scale").finite
    if len(scale) < 3 or max(point.value for point in scale) < LEAST_SCALE or not 0 < scale[-1].value <= FLOOR:
        return None
    top = max(scale, key=lambda point: point.value)
    before_end = [point.value for point in scale[-3:]]
    if top.value < 2**LEAST_SKIPS * scale[-1].value or before_end != sorted(before_end, reverse=True):
        return None
    return Match(
        confidence=0.85,
        summary=(
            f"The loss scale falls from {top.value:g} ({where(top)}) to {scale[-1].value:g} ({where(scale[-1])}), "
            "its floor."
        ),
        evidence=[
            evidence_at(run, "loss_scale", scale[-1], "", f"<= {FLOOR:g}"),
            evidence_at(run, "loss_scale", top, "", NO_BOUND),
        ],
        confirm=CONFIRM,
        action=ACTION,
    )


def _counted(run: LoggedRun) -> Match | None:
    """A large share of the steps of the second half is skipped."""
    points = [point for point in run.get("skipped").finite if point.step is not None]
    points = points[len(points) // 2 :]
    if len(points) < 4:
        return None
    steps = (points[-1].step or 0.0) - (points[0].step or 0.0)
    skipped = _skipped_between(run, points)
    if steps < 20 or skipped < LEAST_SKIPS or skipped < SKIPPED_SHARE * steps:
        return None
    return Match(
        confidence=0.8,
        summary=f"{skipped:.0f} of {steps:.0f} steps up to {where(points[-1])} are skipped ({skipped / steps:.0%}).",
        evidence=[evidence_of(run, "skipped_share", skipped / steps, f">= {SKIPPED_SHARE}", points[-1].line, "share")],
        confirm=CONFIRM,
        action=ACTION,
    )


def _skipped_between(run: LoggedRun, points: list[Point]) -> float:
    """Return the skips from first to last: DeepSpeed prints their total, Megatron those since the last print."""
    values = [point.value for point in points]
    total = all(b >= a for a, b in pairwise(values)) and "iteration" not in run.get("skipped").key
    return values[-1] - values[0] if total else sum(values[1:])


def can_judge(run: LoggedRun) -> bool:
    """A loss scale, a count of skips, or lines that tell of them."""
    return bool(run.skips) or any(len(run.get(name).finite) >= 2 for name in ("loss_scale", "skipped"))


RULE = LogRule(
    category="precision",
    can_judge=can_judge,
    needs="the loss scale or the skipped steps",
    to_log="the loss scale and the number of skipped steps (fp16 only)",
    judge=judge,
)
