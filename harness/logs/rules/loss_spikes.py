"""The training loss jumps up again and again, and each time returns: a warning, not yet a failure."""

from __future__ import annotations

import math
from statistics import median

from harness.diagnose.base import Match
from harness.logs.base import LogRule, Verdict, evidence_at
from harness.logs.curves import MAD_TO_SIGMA, smoothed, width_of
from harness.logs.normal import LoggedRun, Point, where

LEAST = 30
"""Losses; spikes are rare by definition."""

SETTLED = 0.2
"""Share of the run before which spikes belong to the start."""

NOISES = 10.0
"""In the logarithm; a log-normal loss, as of single samples, reaches 3.5 once in 4000 values."""

RATIO = 1.5
"""Spike over its surroundings."""

JUMP = 0.1
"""Height of a spike, as a share of the first loss: near zero a loss jumps by large ratios, and nothing is lost."""

LEAST_SPIKES = 3


def judge(run: LoggedRun) -> Verdict:
    """Count the jumps of the logarithm above its running median, neighbours as one."""
    points = run.get("loss").finite
    if run.traits & {"rivals", "rl"} or len(points) < LEAST or min(point.value for point in points) <= 0:
        return None
    logs = [math.log(point.value) for point in points]
    around = smoothed(logs, width_of(logs))
    above = [a - b for a, b in zip(logs, around, strict=True)]
    bound = max(NOISES * MAD_TO_SIGMA * median(abs(value) for value in above), math.log(RATIO))
    first = int(SETTLED * len(points))
    least = JUMP * median(point.value for point in points[:5])
    high = [point.value - math.exp(level) >= least for point, level in zip(points, around, strict=True)]
    hits = [i for i in range(first, len(points) - 2) if above[i] > bound and high[i]]
    spikes = [i for n, i in enumerate(hits) if n == 0 or i - hits[n - 1] > 2]
    if len(spikes) < LEAST_SPIKES:
        return None
    worst: Point = max((points[i] for i in spikes), key=lambda point: point.value)
    return Match(
        confidence=0.4,
        summary=(
            f"The loss jumps up and returns {len(spikes)} times after the start; the largest is {worst.value:.4g} "
            f"({where(worst)})."
        ),
        evidence=[
            evidence_at(
                run, "loss", worst, "", f">= {math.exp(bound):.3g} x the losses around it, and by {least:.2g} above"
            )
        ],
        confirm="Print the gradient norm, and which batch it was, at the steps of the jumps.",
        action=(
            "Clip the gradient norm; if the jumps follow certain data, look at it; a lower Adam beta2 (0.95) helps too."
        ),
    )


def can_judge(run: LoggedRun) -> bool:
    """Enough positive losses of a single goal."""
    loss = run.get("loss").values
    return len(loss) >= LEAST and min(loss) > 0 and not run.traits & {"rivals", "rl"}


RULE = LogRule(
    category="precision",
    can_judge=can_judge,
    needs=f"{LEAST} training losses that should fall",
    to_log="the training loss at regular steps",
    judge=judge,
)
