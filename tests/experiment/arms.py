"""Arms of a comparison that nobody ran: made-up runs with made-up numbers."""

from __future__ import annotations

import math
from typing import Any

from harness.diagnose.finding import Diagnosis, Finding
from harness.experiment.compare import Arm, Contrast, Spread
from harness.runs import Run
from tests.diagnose.records import run_of

HEALTHY = Diagnosis(status="healthy")

NOTHING = Spread(math.nan, math.nan, math.nan)


def finding(cause: str = "low_precision_weights") -> Finding:
    """Return a finding with an action."""
    return Finding(category="precision", cause=cause, confidence=0.9, evidence=[], confirm="try", action="fix it")


def diagnosed(*causes: str) -> Diagnosis:
    """Return a diagnosis of these causes."""
    return Diagnosis(status="diagnosed", findings=[finding(cause) for cause in causes])


def timed(
    metric: Any = 0.9, throughput: Any = 100.0, memory: Any = 1e6, goal: str = "max", state: str = "completed"
) -> Run:
    """Return a run with these numbers."""
    summary = {"val_metric": metric, "throughput": throughput, "peak_memory_bytes": memory}
    return run_of(summary, {"goal": goal, "metric": "accuracy"}, state=state)


def arm(*runs: Run, diagnosis: Diagnosis = HEALTHY, label: str = "arm") -> Arm:
    """Return an arm with these runs; the first one stands for the observed run too."""
    found = list(runs or (timed(), timed()))
    return Arm(label, [], found, found[0], diagnosis)


def spread(*values: float) -> Spread:
    """Return lowest, middle and highest of three values, or of one."""
    ordered = sorted(values)
    return Spread(ordered[len(ordered) // 2], ordered[0], ordered[-1])


SAME, NONE = Spread(1, 1, 1), Spread(0, 0, 0)


def against(speed: Spread = SAME, quality: Spread = NONE, memory: Spread = SAME) -> Contrast:
    """Return a contrast; without arguments nothing differs."""
    return Contrast(speed=speed, quality=quality, memory=memory)
