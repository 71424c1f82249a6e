"""Every built-in workload keeps the contract of a workload; a new file is tested the moment it is there."""

from __future__ import annotations

import pytest
import torch

from harness.engine.callouts import call_metric
from harness.engine.workload import WORKLOADS, load_workload
from harness.workloads.base import TensorPairs, Workload, size_of
from tests.running import Launcher, losses

NAMES = WORKLOADS.names()


@pytest.fixture(params=NAMES)
def workload(request: pytest.FixtureRequest) -> Workload:
    """Return each tiny workload."""
    return load_workload(request.param, "tiny", 0)


def batch_of(workload: Workload, count: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first training samples."""
    assert isinstance(workload.train_data, TensorPairs)
    return workload.train_data[torch.arange(count)]


def test_loss_is_a_mean_that_reaches_every_parameter(workload: Workload) -> None:
    """A scalar in fp32, and no parameter is left without a gradient."""
    inputs, targets = batch_of(workload)
    loss = workload.loss(workload.model(inputs), targets)
    loss.backward()  # type: ignore[no-untyped-call]
    assert (loss.shape, loss.dtype) == ((), torch.float32)
    assert all(parameter.grad is not None for parameter in workload.model.parameters())


def test_loss_is_fp32_under_autocast(workload: Workload) -> None:
    """A loss in half precision would be coarser than the training that it measures."""
    inputs, targets = batch_of(workload)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert workload.loss(workload.model(inputs), targets).dtype == torch.float32


def test_metric_has_one_value_per_sample(workload: Workload) -> None:
    """Within its range, and with a direction."""
    inputs, targets = batch_of(workload)
    values = call_metric(workload.metric, workload.model(inputs), targets)
    assert values.shape == (16,)
    assert bool((values >= 0).all())
    assert workload.metric_goal in {"max", "min"}


def test_augmentation_keeps_the_form_and_follows_its_generator(workload: Workload) -> None:
    """Equal generators change equally, and the inputs themselves stay."""
    inputs, _ = batch_of(workload)
    before = inputs.clone()
    assert workload.augment is not None
    made = [workload.augment(inputs, torch.Generator().manual_seed(seed)) for seed in range(8)]
    again = [workload.augment(inputs, torch.Generator().manual_seed(seed)) for seed in range(8)]
    assert all(torch.equal(one, other) for one, other in zip(made, again, strict=True))
    assert (made[0].shape, made[0].dtype, torch.equal(inputs, before)) == (inputs.shape, inputs.dtype, True)
    assert any(not torch.equal(one, made[0]) for one in made)


def test_splits_share_no_sample(workload: Workload) -> None:
    """What is validated was never trained on; a text repeats some of its windows of 32 bytes by itself."""
    train, val = workload.train_data, workload.val_data
    assert isinstance(train, TensorPairs)
    assert isinstance(val, TensorPairs)
    seen = {tuple(row) for row in train.inputs.flatten(1).tolist()}
    shared = sum(tuple(row) in seen for row in val.inputs.flatten(1).tolist())
    assert shared <= 0.1 * size_of(val)


@pytest.mark.parametrize("name", NAMES)
def test_size_changes_the_model(name: str) -> None:
    """Small is larger than tiny; large is for a GPU and is not built here."""
    tiny, small = (
        sum(p.numel() for p in load_workload(name, size, 0).model.parameters()) for size in ("tiny", "small")
    )
    assert small > 2 * tiny


@pytest.mark.parametrize("name", NAMES)
def test_training_learns(launched: Launcher, name: str) -> None:
    """The loss falls by a third within a second or two."""
    run = launched(workload=name, max_steps=60, lr=0.01, batch_size=32)
    assert run.state == "completed", run.message
    assert losses(run)[-1] < losses(run)[0] * 2 / 3
