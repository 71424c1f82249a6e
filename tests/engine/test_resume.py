"""A run that is saved and resumed is the uninterrupted run, number for number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.runs import Run
from tests.running import Launcher, losses, losses_after

KINDS: dict[str, dict[str, Any]] = {
    "fp32": {},
    "bf16": {"precision": "bf16"},
    "fp16": {"precision": "fp16"},
    "fp16 whose scale moves": {"precision": "fp16", "init_scale": 2.0**34, "growth_interval": 2, "max_steps": 40},
    "accumulation": {"grad_accum": 3},
    "augmentation": {"augment": True},
    "sgd with warm-up": {"optimizer": "sgd", "weight_decay": 0.01, "warmup_steps": 8},
    "constant schedule": {"schedule": "constant"},
    "over epochs": {"batch_size": 512, "grad_accum": 2},
    "two ranks": {"devices": 2},
    "two ranks, fp16, accumulation": {"devices": 2, "precision": "fp16", "grad_accum": 2, "augment": True},
    "loader processes": {"num_workers": 1},
    "byte_lm": {"workload": "byte_lm", "batch_size": 8},
}

RANDOM = """
import random
import numpy as np

class Mine(Rows):
    def item(self, inputs, target, index):
        noise = torch.rand(8) + torch.tensor(np.random.rand(8), dtype=torch.float32) + random.random()
        return inputs + noise, target

def make():
    layers = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2)
    return parts(model=nn.Sequential(*layers), train_data=Mine(), val_data=Mine(40))
"""
"""Draws from every generator: dropout and data from torch, data from numpy and Python."""


def same_end(one: Run, other: Run, step: int) -> None:
    """Make sure that two runs agree after a step, and in their result."""
    for run in (one, other):
        assert run.state == "completed", run.message
    assert losses_after(one, step) == losses_after(other, step)
    assert len(losses_after(one, step)) == one.start["spec"]["max_steps"] - step
    assert one.value("val_metric") == other.value("val_metric")


@pytest.mark.parametrize("parts", KINDS.values(), ids=KINDS)
def test_restarted_run_is_the_uninterrupted_one(launched: Launcher, parts: dict[str, Any]) -> None:
    """Everything is dropped and built again in the middle of an epoch."""
    same_end(launched(**parts), launched(restart_at=5, **parts), 0)


@pytest.mark.parametrize("parts", KINDS.values(), ids=KINDS)
def test_new_process_resumes_the_uninterrupted_run(launched: Launcher, parts: dict[str, Any]) -> None:
    """From any of the checkpoints that a run has left."""
    whole = launched(checkpoint_interval=3, **parts)
    for step in (3, 6):
        same_end(whole, launched(resume=str(whole.folder / f"step{step}.pt"), **parts), step)


@pytest.mark.parametrize("devices", [1, 2])
def test_random_numbers_go_on_where_they_stopped(launched: Launcher, devices: int) -> None:
    """Dropout and a dataset that draws from torch, numpy and Python, on each rank its own."""
    name = launched.written(RANDOM)
    whole = launched(workload=name, devices=devices, checkpoint_interval=4, val_interval=3)
    again = launched(workload=name, devices=devices, val_interval=3, resume=str(whole.folder / "step4.pt"))
    same_end(whole, again, 4)
    same_end(whole, launched(workload=name, devices=devices, val_interval=3, restart_at=5), 0)


def test_resume_of_a_resumed_run(launched: Launcher) -> None:
    """Twice interrupted is still the same run."""
    whole = launched(checkpoint_interval=4)
    middle = launched(checkpoint_interval=4, resume=str(whole.folder / "step4.pt"))
    same_end(whole, launched(resume=str(middle.folder / "step8.pt")), 8)


def test_longer_run_may_resume_a_shorter_one(launched: Launcher) -> None:
    """What is trained further gets a new length, and with it another schedule; a constant one does not change."""
    short = launched(checkpoint_interval=6, max_steps=6, schedule="constant")
    long = launched(max_steps=12, schedule="constant")
    same_end(long, launched(max_steps=12, schedule="constant", resume=str(short.folder / "step6.pt")), 6)


def test_resume_is_recorded_with_its_scale(launched: Launcher) -> None:
    """Where it went on, from which file, and whether the loss scale came back."""
    whole = launched(checkpoint_interval=4, precision="fp16", growth_interval=2)
    again = launched(precision="fp16", growth_interval=2, resume=str(whole.folder / "step4.pt"))
    record = again.ranks[0].last("resume")
    assert (record["step"], record["path"], record["saved_scale"]) == (4, "step4.pt", record["live_scale"])
    assert record["live_scale"] > 65536
    assert [record["path"] for record in whole.ranks[0].of("checkpoint")] == ["step4.pt", "step8.pt", "step12.pt"]


def test_ranks_write_one_checkpoint_together(launched: Launcher) -> None:
    """Two ranks that wrote the same file would destroy it for each other."""
    run = launched(devices=2, checkpoint_interval=1, max_steps=20)
    assert run.state == "completed", run.message
    assert len(list(run.folder.glob("step*.pt"))) == 20
    assert list(run.folder.glob("*.partial")) == []


def test_saving_changes_no_number(launched: Launcher) -> None:
    """A checkpoint is only written."""
    assert losses(launched(checkpoint_interval=1)) == losses(launched())


def test_relative_checkpoint_is_found_from_here(launched: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path means the caller's folder."""
    whole = launched(checkpoint_interval=4)
    monkeypatch.chdir(whole.folder)
    same_end(whole, launched(resume=str(Path("step4.pt"))), 4)
