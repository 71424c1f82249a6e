"""Writers of the formats that are tables or JSON, from the same curve."""

from __future__ import annotations

import json
import math

from tests.logs.curves import Curve


def jsonl(curve: Curve) -> str:
    """Our own records."""
    lines = []
    for i, loss in enumerate(curve.loss):
        value = loss if math.isfinite(loss) else str(loss)
        lines.append(
            json.dumps(
                {
                    "event": "step",
                    "step": i + 1,
                    "loss": value,
                    "throughput": 64 / curve.step_time[i],
                    "unit": "samples/s",
                }
            )
        )
        if i in curve.val:
            lines.append(
                json.dumps({"event": "validation", "step": i + 1, "val_loss": _text(curve.val[i]), "goal": "max"})
            )
    return "\n".join(lines)


def _text(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def lightning_csv(curve: Curve) -> str:
    """metrics.csv of Lightning: training and validation have rows of their own."""
    lines = ["epoch,lr,step,train_loss,val_acc,val_loss"]
    for i, loss in enumerate(curve.loss):
        lines.append(f"{i // 6},0.001,{i * 10},{loss},,")
        if i in curve.val:
            lines.append(f"{i // 6},,{i * 10},,{curve.accuracy.get(i, '')},{curve.val[i]}")
    return "\n".join(lines)


def ultralytics(curve: Curve) -> str:
    """results.csv with padded headers and a clock that runs on."""
    names = [
        "epoch",
        "time",
        "train/box_loss",
        "train/cls_loss",
        "metrics/mAP50(B)",
        "metrics/mAP50-95(B)",
        "val/box_loss",
        "val/cls_loss",
        "lr/pg0",
    ]
    lines = [",".join(name.rjust(23) for name in names)]
    clock = 0.0
    val = 0.0
    for i, loss in enumerate(curve.loss):
        clock += 40 * curve.step_time[i]
        val = curve.val.get(i, val or loss)
        score = 0.5 * (1 - math.exp(-5 * i / len(curve.loss)))
        cells = [i + 1, clock, loss * 0.6, loss * 0.4, score * 1.4, score, val * 0.6, val * 0.4, 0.01]
        lines.append(",".join(f"{cell:.6g}".rjust(23) for cell in cells))
    return "\n".join(lines)


def trainer_state(curve: Curve) -> str:
    """trainer_state.json of Hugging Face."""
    history: list[dict[str, float]] = []
    for i, loss in enumerate(curve.loss):
        history.append(
            {"epoch": i / 6, "grad_norm": curve.grad_norm[i], "learning_rate": 1e-4, "loss": loss, "step": i * 10}
        )
        if i in curve.val:
            history.append({"epoch": i / 6, "eval_loss": curve.val[i], "eval_runtime": 12.0, "step": i * 10})
    return json.dumps({"best_metric": None, "epoch": 10.0, "global_step": 600, "log_history": history}, indent=2)


def keras_csv(curve: Curve) -> str:
    """CSVLogger: one row an epoch, German spreadsheet."""
    lines = ["epoch;loss;val_loss"]
    val = next(iter(curve.val.values()), 1.0)
    for i, loss in enumerate(curve.loss):
        val = curve.val.get(i, val)
        lines.append(f"{i};{loss:.5f};{val:.5f}".replace(".", ","))
    return "\n".join(lines)


def fastai(curve: Curve) -> str:
    """A table that is set with spaces."""
    val = next(iter(curve.val.values()), 1.0)
    lines = ["epoch     train_loss  valid_loss  time    "]
    for i, loss in enumerate(curve.loss):
        val = curve.val.get(i, val)
        lines.append(f"{i:<10}{loss:<12.6f}{val:<12.6f}00:{int(curve.step_time[i] * 60):02d}   ")
    return "\n".join(lines)


def markdown(curve: Curve) -> str:
    """A Markdown table, as a notebook prints it."""
    val = next(iter(curve.val.values()), 1.0)
    lines = ["| Step | Training Loss | Validation Loss |", "|------|---------------|-----------------|"]
    for i, loss in enumerate(curve.loss):
        val = curve.val.get(i, val)
        lines.append(f"| {i * 500} | {loss:.6f} | {val:.6f} |")
    return "\n".join(lines)
