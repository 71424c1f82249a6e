"""What is kept as evidence of a check? The run that decided it: command, numbers, records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from harness.config import RunSpec, argv, digest
from harness.exam.invariants import Judgement
from harness.experiment.store import RunStore
from harness.observe.chain import Tolerance
from harness.observe.evidence import Entry
from harness.report.model import Check

KEPT = (
    "loss",
    "val_metric",
    "val_metric_fp32",
    "zero_grad_share",
    "missing_grad_share",
    "step_norm_ratio",
    "activation_range_used",
    "nonfinite_loss_share",
    "stalled_half_share",
    "clips_before_unscale_share",
    "skipped_steps",
    "skipped_share_late",
    "scaled_attempts",
    "schedule_lead",
    "reduction_error",
    "final_loss_scale",
)
"""Numbers of a run that another engineer must get again; none of them is a time."""

TOLERANCE = {"cpu": Tolerance(relative=1e-3, absolute=1e-6), "cuda": Tolerance(relative=0.05, absolute=0.02)}
"""A CPU repeats its numbers bitwise on one machine; another processor's kernels add in another order. A GPU's
atomic additions change the order from run to run; the bound for it is an assumption until it is measured."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence of one check, as it travels from a worker to the controller."""

    command: list[str] = []
    values: dict[str, float | str] = {}
    artifact: str = ""
    device: str = "cpu"
    fingerprint: dict[str, Any] = {}


def evidence_of(judgement: Judgement, store: RunStore, out: Path) -> Kept:
    """Return the evidence of the last run behind a judgement."""
    return kept(judgement.specs[-1], store, out) if judgement.specs else Kept()


def kept(spec: RunSpec, store: RunStore, out: Path) -> Kept:
    """Return command, numbers and record file of one executed run."""
    run = store.get(spec)
    records = store.folder / digest(spec) / "rank0.jsonl"
    fingerprint = dict(run.start.get("environment") or {}) | {
        "seed": spec.seed,
        "data_hash": run.start.get("data_hash"),
        "device_name": run.start.get("device_name"),
    }
    values = {name: run.value(name) for name in KEPT}
    return Kept(
        command=argv(spec, store.options),
        values={name: value for name, value in values.items() if value is not None},
        artifact=records.relative_to(out).as_posix() if records.exists() else "",
        device=spec.device,
        fingerprint=fingerprint,
    )


def entry(check: Check, kept: Kept, environment: str) -> Entry:
    """Return the evidence record of a finished check."""
    return Entry(
        command=kept.command or ["python", "-m", "pytest", check.id],
        environment=environment,
        expected={"text": check.expected, "low": check.low, "high": check.high, "unit": check.unit},
        observed={"value": check.observed, "reason": check.reason},
        verdict=check.outcome,
        subject=check.id,
        tolerance=TOLERANCE.get(kept.device),
        values={name: float(value) for name, value in kept.values.items()},
        artifacts=[Path(kept.artifact)] if kept.artifact else [],
    )
