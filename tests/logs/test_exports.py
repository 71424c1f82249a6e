"""Are exports read that hold one number a row: of TensorBoard, MLflow, wandb?"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from harness.logs.diagnosis import diagnose_log
from harness.logs.read import read_log
from tests.logs.asked import causes_of, log_of, written
from tests.logs.curves import falling

OVERFITTED = (falling(1, 40, 2.3, 0.05), [0.6 + 1.7 * math.exp(-i / 3) + 0.03 * max(0, i - 10) for i in range(40)])


def tensorboard(values: list[float], pause: float = 0.0) -> str:
    """Return the CSV of one scalar; each step takes so much longer than the one before."""
    rows = [f"{1717405924.1 + 3 * i + pause * i * i:.3f},{i * 10},{value!r}" for i, value in enumerate(values)]
    return "\n".join(["Wall time,Step,Value", *rows])


def found(folder: Path, text: str, name: str) -> list[str]:
    """Return the causes in a file of this name."""
    diagnosis = diagnose_log(read_log(written(folder, text, name)))
    return [finding.cause for finding in diagnosis.findings] or [diagnosis.status]


@pytest.mark.parametrize("name", ["run-.-tag-train_loss.csv", "run-train-tag-Loss_total.csv", "scalar.csv"])
def test_tensorboard_loss(name: str, tmp_path: Path) -> None:
    """The name of the file says what it is; without one, what falls is a loss."""
    assert found(tmp_path, tensorboard(falling(1, 80)), name) == ["healthy"]
    assert found(tmp_path, tensorboard([*falling(1, 80), math.nan, math.nan]), name) == ["loss_nan"]
    assert found(tmp_path, tensorboard(falling(1, 80) + [9.0] * 40), name) == ["loss_divergence"]
    assert found(tmp_path, tensorboard(falling(1, 80), 0.02), name) == ["step_time_drift"]


@pytest.mark.parametrize("name", ["run-val-tag-Accuracy.csv", "scalar.csv"])
def test_tensorboard_accuracy_is_no_loss(name: str, tmp_path: Path) -> None:
    """What rises is never called a divergence; without a name the log says that it has none."""
    values = [0.9 - value / 10 for value in falling(1, 80)]
    assert found(tmp_path, tensorboard(values), name) == ["not_enough_evidence"]
    missing = diagnose_log(read_log(tmp_path / name)).missing[0].observation
    assert ("column Value" in missing) == (name == "scalar.csv")


def test_one_series_after_the_other(tmp_path: Path) -> None:
    """A long table has all of one series, then all of the next; they are read side by side."""
    rows = [
        f"{key},{v},{i}"
        for key, vs in zip(["train_loss", "val_loss"], OVERFITTED, strict=True)
        for i, v in enumerate(vs)
    ]
    assert causes_of(tmp_path, "\n".join(["key,value,step", *rows])) == ["overfitting"]


def test_runs_of_a_long_table(tmp_path: Path) -> None:
    """A column for the run makes runs."""
    rows = [f"{run},loss,{i},{v}" for run in "ab" for i, v in enumerate(falling(ord(run), 30))]
    assert len(log_of(tmp_path, "\n".join(["run,tag,step,value", *rows])).runs) == 2


def test_metric_file_of_mlflow(tmp_path: Path) -> None:
    """Three numbers a row: milliseconds, value, step; the file is called after the metric."""
    text = "\n".join(f"{1717405924123 + 9000 * i} {v} {i}" for i, v in enumerate([*falling(1, 30), math.nan, math.nan]))
    assert found(tmp_path, text, "train_loss") == ["loss_nan"]


def test_runs_beside_each_other(tmp_path: Path) -> None:
    """Wandb exports a column a run; the bad one is named."""
    good, bad = falling(1, 80, 3, 1), falling(2, 40, 3, 1) + [4.0] * 40
    rows = [f'"{i}","{a}","{b}"' for i, (a, b) in enumerate(zip(good, bad, strict=True))]
    text = "\n".join(['"Step","good-1 - train/loss","bad-2 - train/loss"', *rows])
    (finding,) = diagnose_log(log_of(tmp_path, text)).findings
    assert (finding.cause, finding.summary.split(":")[0]) == ("loss_divergence", "bad-2")
