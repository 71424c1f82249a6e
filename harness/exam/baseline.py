"""Is there a baseline? Nothing can be compared until a run repeats itself."""

from __future__ import annotations

import math

from harness.config import RunSpec
from harness.exam.invariants import Judgement, unfit
from harness.experiment.store import RunStore
from harness.runs import Run

BOUNDS = {"cpu": 0.0, "cuda": 0.02}
"""Largest relative difference of a logged loss. One thread on a CPU adds in one order: bitwise. Atomic additions
on a GPU change the order; two per cent over 100 steps of a small model is an assumption until it is measured."""


def baseline(store: RunStore, spec: RunSpec) -> Judgement:
    """The same spec, run twice, gives the same losses."""
    first, second = store.get(spec), store.get(spec, repeat=1)
    broken = unfit(first, spec) or unfit(second, spec)
    if broken:
        return broken
    bound = BOUNDS.get(spec.device, 0.0)
    worst = _largest_difference(first, second)
    unfinished = next((run.message for run in (first, second) if run.state != "completed"), "")
    return Judgement(
        outcome="PASSED" if worst is not None and 0 <= worst <= bound and not unfinished else "FAILED",
        expected="equal losses" if bound == 0 else f"losses within {bound:.0%}",
        observed=worst,
        low=0.0,
        high=bound,
        unit="relative difference",
        reason=unfinished or f"{len(first.series('step', 'loss'))} logged losses compared",
        specs=[spec],
    )


def _largest_difference(first: Run, second: Run) -> float | None:
    """Return the largest relative difference of a logged loss; None when the runs logged different steps."""
    ours, theirs = first.series("step", "loss"), second.series("step", "loss")
    if not ours or [step for step, _ in ours] != [step for step, _ in theirs]:
        return None
    differences = [abs(a - b) / max(abs(a), 1e-12) for (_, a), (_, b) in zip(ours, theirs, strict=True)]
    # max() would drop a NaN.
    return math.nan if any(map(math.isnan, differences)) else max(differences)
