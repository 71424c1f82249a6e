"""Training and validation are both bad, and neither moves any more.

Bad is said of a score alone: what a good loss is, nobody can tell from a log. Both still improving is healthy.
"""

from __future__ import annotations

from statistics import median

from harness.diagnose.base import Match
from harness.logs.base import LogRule, Verdict, evidence_at, evidence_of
from harness.logs.curves import thirds
from harness.logs.normal import LoggedRun, Series, where

LEAST = 10
"""Evaluations: each third has three."""

BAD = 0.5
"""A score of 0 to 1: below half of the answers right with no further progress."""

FLAT = 0.02
"""Change from the middle third to the last, absolute for the score and relative for the loss."""

LEARNED = 0.35
"""Share by which the training loss fell from its start; a model that has learned more is limited by something else."""

GAP = 0.05
"""Training score above the validation score from which the model can fit more than it generalises."""

SCORES = ("acc", "f1", "r2", "top1")
"""Scores for which a half is bad; mAP, BLEU or IoU have their own good values."""


def judge(run: LoggedRun) -> Verdict:
    """All of it must hold: a low score, flat, a loss that fell little and is flat, and no gap."""
    val, train, loss = run.get("val_metric"), run.get("train_metric"), run.get("loss").values
    if not can_judge(run):
        return None
    scale = 100.0 if max(val.values) > 1.5 else 1.0
    _, middle, last = (median(part) / scale for part in thirds(val.values))
    first_loss, middle_loss, last_loss = (median(part) for part in thirds(loss))
    start = max(loss[0], first_loss)
    if last >= BAD or abs(last - middle) > FLAT or last_loss < (1 - LEARNED) * start:
        return None
    if middle_loss - last_loss > FLAT * abs(middle_loss) or _gap(train, last, scale) > GAP:
        return None
    point = val.finite[-1]
    return Match(
        confidence=0.65,
        summary=(
            f"{val.key} stands at {last * scale:.4g} ({where(point)}; {middle * scale:.4g} before) and the "
            "training loss at "
            f"{last_loss:.4g} of {start:.4g}: both are bad and no longer move."
        ),
        evidence=[
            evidence_at(run, val.key, point, "", f"< {BAD * scale:g} and changed by <= {FLAT * scale:g}"),
            evidence_of(run, "train_loss_fall", 1 - last_loss / start, f"<= {LEARNED:g}", point.line, "share"),
        ],
        confirm=(
            "Train on 100 samples only: a model that cannot fit even those is too small, or its learning rate is wrong."
        ),
        action=(
            "A larger model, a higher learning rate, less weight decay or dropout; check that inputs are normalised."
        ),
    )


def _gap(train: Series, val: float, scale: float) -> float:
    return median(train.values[-3:]) / scale - val if train.values else 0.0


def can_judge(run: LoggedRun) -> bool:
    """Enough evaluations of a score that is bad below a half, beside a positive training loss."""
    val, loss = run.get("val_metric"), run.get("loss").values
    named = any(name in val.key.lower() for name in SCORES) and "token" not in val.key.lower()
    enough = len(val.finite) >= LEAST and len(loss) >= LEAST and min(loss) > 0
    return enough and named and not run.traits & {"rivals", "rl", "contrastive"}


RULE = LogRule(
    category="generalisation",
    can_judge=can_judge,
    needs=f"{LEAST} evaluations of an accuracy beside the training loss",
    to_log="the validation accuracy of each epoch",
    judge=judge,
)
