"""A session as it could have been: three scenarios, every kind of ending. The numbers are made up."""

from __future__ import annotations

from typing import Any

from harness.observe.outcome import Gate, GateCheck, Outcome
from harness.report.model import Check, Results
from tests.report.incidents import (
    BUCKETS,
    RETAINED,
    SCALING,
    SCHEDULER,
    TRAIN,
    buckets_incident,
    scaling_incident,
    scheduler_incident,
)

ENVIRONMENT = {
    "cpu": "AMD EPYC 9654 96-Core Processor",
    "cores_available": 2,
    "memory_gib": 7.8,
    "gpus": [],
    "driver": None,
    "os": "Linux-6.1.0-x86_64-with-glibc2.36",
    "python": "3.11.7",
    "torch": "2.13.0+cpu",
    "cuda": None,
    "thread_variables": {"OMP_NUM_THREADS": "1"},
    "git_commit": "4c1d0f6e8a9b7c5d3e2f1a0b9c8d7e6f5a4b3c2d",
    "git_dirty": False,
}

GATE = Gate(
    outcome="PASSED",
    checks=[
        GateCheck(name="gemm fp32", outcome="PASSED", observed="6.1e-7", expected="relative error <= 1e-5"),
        GateCheck(name="gemm bf16", outcome="PASSED", observed="2.9e-3", expected="relative error <= 1e-2"),
        GateCheck(name="shared memory", outcome="PASSED", observed="3.9 GiB free", expected=">= 256 MiB free"),
        GateCheck(
            name="timing environment",
            outcome="RECORDED",
            observed="OMP_NUM_THREADS=1",
            expected="no variable that distorts timing",
            remedy="none needed on cpu; unset it before a timed run on a GPU",
        ),
    ],
)


TITLES = {
    "control": "the healthy twin shows no finding",
    "symptom": "the declared observation moves beyond noise",
    "diagnosis": "the first finding is this cause",
    "confirm": "one changed part moves the observation back",
    "remedy": "the fix restores the metric; a cheat does not",
}


def check(place: tuple[str, str, str, str], invariant: str, outcome: Outcome, **more: Any) -> Check:
    """Return one row."""
    scenario, cause, workload, device = place
    fields: dict[str, Any] = {
        "id": "/".join([*place, invariant]),
        "scenario": scenario,
        "cause": cause,
        "workload": workload,
        "device": device,
        "invariant": invariant,
        "title": TITLES.get(invariant, invariant),
        "outcome": outcome,
    }
    return Check(**(fields | more))


def checks() -> list[Check]:
    """Return rows in which every outcome occurs."""
    none: dict[str, Any] = {"expected": "0 findings", "low": 0, "high": 0, "observed": 0, "unit": "findings"}
    share: dict[str, Any] = {"low": 0.3, "observed": 0.7031, "unit": "share"}
    back: dict[str, Any] = {"low": 0, "high": 0.02, "observed": 0.0004, "unit": "share"}
    restored: dict[str, Any] = {"low": 0.949, "high": 0.969, "observed": 0.96, "unit": "accuracy"}
    skew: dict[str, Any] = {
        "low": 0.05,
        "observed": 0.049996,
        "unit": "ratio",
        "reason": "just below the declared 0.05",
    }
    slow: dict[str, Any] = {"low": 0.0185, "observed": 0.0192, "unit": "s"}
    growth: dict[str, Any] = {"low": 100_000, "observed": 764_000, "unit": "bytes"}
    killed = "rank 0 ended with signal 9 (Killed); last line: step=188 loss=0.41"
    return [
        check(SCALING, "control", "PASSED", evidence=[3], **none),
        check(SCALING, "symptom", "PASSED", evidence=[4, 5], expected=">= 10 x noise", **share),
        check(SCALING, "diagnosis", "PASSED", evidence=[6], expected=SCALING[1], observed=SCALING[1]),
        check(SCALING, "confirm", "PASSED", evidence=[7], expected="within noise of the control", **back),
        check(SCALING, "remedy", "PASSED", evidence=[8], expected="control +- 0.01", **restored),
        check(SCHEDULER, "control", "PASSED", evidence=[9], **none),
        check(SCHEDULER, "symptom", "FAILED", evidence=[10], expected="> 0.05", **skew),
        check(SCHEDULER, "diagnosis", "ERROR", expected=SCHEDULER[1], reason=killed),
        check(SCHEDULER, "confirm", "BLOCKED", reason="blocked by symptom"),
        check(SCHEDULER, "remedy", "TIMEOUT", reason="stopped after 120 s"),
        check(BUCKETS, "control", "RECORDED", observed=0.0123, unit="s", reason="no earlier session to compare with"),
        check(BUCKETS, "symptom", "INCONCLUSIVE", reason="the spread of 0.004 s is wider than the effect", **slow),
        check(BUCKETS, "diagnosis", "SKIPPED", reason="needs the full observers"),
        check(RETAINED, "control", "PASSED", **none),
        check(RETAINED, "symptom", "PASSED", commands=[f"{TRAIN} --observe full"], **growth),
    ]


def confusion() -> dict[str, dict[str, int]]:
    """Return two wrong answers among sixteen."""
    return {
        "healthy": {"healthy": 6},
        "no_loss_scaling": {"no_loss_scaling": 3},
        "scheduler_on_skipped_step": {"not_enough_evidence": 1, "scheduler_on_skipped_step": 2},
        "small_buckets": {"healthy": 1, "small_buckets": 2},
        "graph_retained": {"graph_retained": 1},
    }


def sample(**changes: Any) -> Results:
    """Return the session; ``changes`` replace its fields."""
    fields: dict[str, Any] = {
        "command": "pytest scenarios/ --device cpu --out reports/2026-03-02",
        "started": "2026-03-02T09:14:05+00:00",
        "ended": "2026-03-02T09:21:47+00:00",
        "environment": ENVIRONMENT,
        "gate": GATE,
        "planned": 15,
        "executed": 12,
        "gpu_planned": 5,
        "gpu_executed": 0,
        "checks": checks(),
        "incidents": [scaling_incident(), scheduler_incident(), buckets_incident()],
        "confusion": confusion(),
        "evidence_records": 24,
        "evidence_head": "9f2b5c0e7d41a8836f1f0d9b7c2e64a50b1c8de3f7a9245d6e0c1b8a7f3d2e91",
    }
    return Results(**(fields | changes))


def empty(**changes: Any) -> Results:
    """Return a session in which nothing happened."""
    nothing: dict[str, Any] = {
        "environment": {},
        "gate": None,
        "planned": 0,
        "executed": 0,
        "gpu_planned": 0,
        "checks": [],
        "incidents": [],
        "confusion": {},
        "evidence_records": 0,
        "evidence_head": "",
    }
    return sample(**(nothing | changes))
