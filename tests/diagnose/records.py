"""Runs whose records are made up or edited, to ask the diagnosis about them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.diagnose.observations import Observations
from harness.runs import RankRecords, Run

HEALTHY: dict[str, Any] = {
    "attempted_steps": 100,
    "scaled_attempts": 0,
    "skipped_steps": 0,
    "skipped_share_late": 0.0,
    "clips_before_unscale_share": 0.0,
    "fixed_scaled_norm": 0.0,
    "running_sum_error": 0.0,
    "replaced_scalers": 0,
    "shared_unscale_share": 0.0,
    "discarded_share_late": 0.0,
    "discarded_leads": 0,
    "rounded_weight_share": 0.0,
    "stalled_rounded_share": 0.0,
    "stalled_rounded_between": 0.0,
    "final_loss_scale": 1.0,
    "scale_backoffs": 0,
    "optimizer_steps": 100,
    "scheduler_steps": 100,
    "schedule_lead": 0,
    "step_norm_ratio": 1.0,
    "second_unscale_share": 0.0,
    "grad_norm_median": 1.0,
    "zero_grad_share": 0.1,
    "missing_grad_share": 0.0,
    "unreached_weight_share": 0.0,
    "fp16_floor_share": 0.0,
    "lost_backward_share": 0.0,
    "grad_elements": 1000,
    "fresh_scaler_resumes": 0,
    "partial_grad_share": 0.0,
    "stalled_half_share": 0.0,
    "half_weight_share": 0.0,
    "half_state_share": 0.0,
    "flushed_moment_share": 0.0,
    "weight_dtypes": "float32",
    "lost_weights_step": 0,
    "nonfinite_loss_share": 0.0,
    "activation_range_used": None,
    "overflow_module": "",
    "infinite_module": "",
    "overflow_step": 0,
    "overflow_site": "",
    "coarser_eval_module": "",
    "train_formats": "float32",
    "train_output_bits": 23,
    "train_weight_bits": 23,
    "eval_output_bits": 23,
    "eval_weight_bits": 23,
    "train_op_bits": 23,
    "eval_op_bits": 23,
    "reduction_error": 0.0,
    "reduction_site": "",
    "running_sum_site": "",
    "val_metric": 0.9,
    "val_metric_fp32": 0.9,
    "val_standard_error": 0.01,
}
"""The summary of a healthy fp32 run."""

START: dict[str, Any] = {"spec": {"precision": "fp32", "seed": 42}, "world_size": 1, "num_val": 1000, "goal": "max"}

FP16: dict[str, Any] = {"train_formats": "float16,float32", "scaled_attempts": 100, "final_loss_scale": 65536.0}
"""What a healthy fp16 run says otherwise."""


def run_of(
    summary: dict[str, Any] | None = None,
    start: dict[str, Any] | None = None,
    events: list[dict[str, Any]] | None = None,
    state: Any = "completed",
) -> Run:
    """Return a run with these records; summary and start are added to those of a healthy one."""
    records = [
        {"event": "start"} | START | (start or {}),
        {"event": "step", "step": 100, "loss": 0.5},
        *(events or []),
        {"event": "end", "state": state, "summary": HEALTHY | (summary or {})},
    ]
    return Run(Path("made-up"), [RankRecords(0, records)])


def fp16_run(**summary: Any) -> Run:
    """Return an fp16 run with some observations of its own."""
    return run_of(FP16 | summary, {"spec": {"precision": "fp16", "seed": 42}})


def observed(run: Run, reference: Run | None = None) -> Observations:
    """Return the observations of a run against a healthy fp32 one."""
    return Observations(run, reference or run_of())


def edited(run: Run, change: Any) -> Run:
    """Return a run each of whose records went through ``change``; the folder stays as it is."""
    ranks = [replace(rank, records=[change(dict(record)) for record in rank.records]) for rank in run.ranks]
    return Run(run.folder, ranks, run.exits)


def without(run: Run, *names: str) -> Run:
    """Return a run that says nothing of these names: not in a record, not in the summary."""

    def change(record: dict[str, Any]) -> dict[str, Any]:
        kept = {name: value for name, value in record.items() if name not in names}
        summary = kept.get("summary")
        if isinstance(summary, dict):
            kept["summary"] = {name: value for name, value in summary.items() if name not in names}
        return kept

    return edited(run, change)
