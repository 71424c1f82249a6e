"""Several small batches are one large one: the gradient of a step does not depend on how its samples are cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from harness.config import changed
from tests.engine.built import gradients_of_one_step
from tests.running import TINY, Launcher, losses

WORKLOADS: list[dict[str, Any]] = [
    {"workload": "digits_mlp"},
    {"workload": "digits_cnn"},
    {"workload": "byte_lm"},
    {"workload": "digits_mlp", "loss_weight": 3.0},
]


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("parts", WORKLOADS, ids=lambda parts: "-".join(map(str, parts.values())))
def test_accumulated_gradient_is_that_of_the_large_batch(tmp_path: Path, parts: dict[str, Any], count: int) -> None:
    """Equal but for the order of the additions: 1e-5 is a hundred roundings of fp32."""
    large = gradients_of_one_step(changed(TINY, parts | {"batch_size": 32}), tmp_path / "large")
    small = changed(TINY, parts | {"batch_size": 32 // count, "grad_accum": count})
    for one, other in zip(large, gradients_of_one_step(small, tmp_path / "small"), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)


def test_weighted_loss_scales_the_gradient_alone(tmp_path: Path) -> None:
    """The recorded loss stays the mean loss of the batch."""
    plain = gradients_of_one_step(TINY, tmp_path / "plain")
    tripled = gradients_of_one_step(changed(TINY, {"loss_weight": 4.0}), tmp_path / "tripled")
    assert all(torch.equal(one * 4, other) for one, other in zip(plain, tripled, strict=True))


@pytest.mark.parametrize("devices", [1, 2])
def test_accumulated_run_follows_the_run_with_large_batches(launched: Launcher, devices: int) -> None:
    """The recorded loss is the mean over the whole step, and the weights go the same way."""
    large = launched(batch_size=64, max_steps=8, devices=devices)
    small = launched(batch_size=16, grad_accum=4, max_steps=8, devices=devices)
    assert losses(large) == pytest.approx(losses(small), rel=1e-4)
    assert large.value("samples_seen") == small.value("samples_seen") == 512 * devices


def test_two_ranks_are_one_with_twice_the_batch_when_all_samples_are_drawn(launched: Launcher) -> None:
    """Each rank takes every other sample of the same order: together they are the batch of one."""
    one = launched(batch_size=64, max_steps=8, clip_norm=0.0)
    two = launched(batch_size=32, devices=2, max_steps=8, clip_norm=0.0)
    assert one.value("val_metric") == pytest.approx(two.value("val_metric"), abs=0.01)
    assert one.ranks[0].of("step")[0]["loss"] != two.ranks[0].of("step")[0]["loss"]
