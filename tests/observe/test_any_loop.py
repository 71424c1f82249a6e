# mypy: allow-untyped-calls
"""Does training stay bitwise the same under all observers, whoever wrote the loop?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer, lr_scheduler

from harness.observe.standard import Watch


class Net(nn.Module):
    """Dropout, batch norm, an embedding and a tied weight: everything with a state or a random number."""

    def __init__(self, *, sparse: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 8, sparse=sparse)
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 20))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits for each token."""
        out: Tensor = self.body(self.table(x))
        return out


Training = Callable[[Net, Tensor, Tensor], Iterator[float]]


def plain(model: Net, x: Tensor, y: Tensor) -> Iterator[float]:
    """fp32 with AdamW, clipping, a schedule, and an evaluation in between."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = lr_scheduler.CosineAnnealingLR(optimizer, 12)
    for step in range(12):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        yield float(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5))
        optimizer.step()
        schedule.step()
        if step % 5 == 4:
            model.eval()
            with torch.no_grad():
                yield float(nn.functional.cross_entropy(model(x), y))
            model.train()


def mixed(dtype: torch.dtype, *, scaled: bool) -> Training:
    """Return a mixed-precision training."""

    def train(model: Net, x: Tensor, y: Tensor) -> Iterator[float]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        scaler = GradScaler("cpu", init_scale=2.0**24, enabled=scaled)
        for _ in range(12):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=dtype):
                loss = nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            yield float(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5))
            scaler.step(optimizer)
            scaler.update()
            yield scaler.get_scale()

    return train


def several(model: Net, x: Tensor, y: Tensor) -> Iterator[float]:
    """Two optimizers, one of them for sparse gradients."""
    optimizers: list[Optimizer] = [
        torch.optim.SparseAdam(list(model.table.parameters()), lr=0.01),
        torch.optim.SGD(model.body.parameters(), lr=0.1, momentum=0.9),
    ]
    for _ in range(12):
        loss = nn.functional.cross_entropy(model(x), y)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        yield loss.item()


def by_closure(model: Net, x: Tensor, y: Tensor) -> Iterator[float]:
    """LBFGS with a closure."""
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)

    def closure() -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss.item()

    for _ in range(4):
        yield float(optimizer.step(closure))


def in_bf16(model: Net, x: Tensor, y: Tensor) -> Iterator[float]:
    """A whole model in bf16."""
    yield from plain(model.bfloat16(), x, y)


TRAININGS: dict[str, tuple[Training, bool]] = {
    "fp32": (plain, False),
    "bf16_weights": (in_bf16, False),
    "bf16": (mixed(torch.bfloat16, scaled=False), False),
    "fp16": (mixed(torch.float16, scaled=True), False),
    "several_optimizers": (several, True),
    "lbfgs": (by_closure, False),
}


def trained(kind: str, level: str) -> tuple[list[float], dict[str, Tensor], Tensor, dict[str, Any]]:
    """Return the numbers, weights and generator state after a training under a level of observation."""
    train, sparse = TRAININGS[kind]
    torch.manual_seed(0)
    model = Net(sparse=sparse)
    x = torch.randint(0, 20, (32,))
    watch = Watch(level)
    watch.start()
    try:
        numbers = list(train(model, x, x.roll(1)))
    finally:
        watch.stop()
    return numbers, model.state_dict(), torch.get_rng_state(), watch.summary()


@pytest.mark.parametrize("level", ["default", "full"])
@pytest.mark.parametrize("kind", TRAININGS)
def test_training_is_bitwise_the_same_with_and_without(kind: str, level: str) -> None:
    """Losses, norms, scales, weights, buffers and random numbers: nothing moves, and nobody steps aside."""
    without, with_them = trained(kind, "off"), trained(kind, level)
    assert repr(with_them[0]) == repr(without[0])
    assert all(torch.equal(with_them[1][name], value) for name, value in without[1].items())
    assert torch.equal(with_them[2], without[2])
    assert with_them[3]["observer_notes"] == []


@pytest.mark.parametrize("kind", TRAININGS)
def test_the_standard_observers_know_any_loop(kind: str) -> None:
    """Loops that know nothing of us are counted exactly."""
    summary = trained(kind, "full")[3]
    steps = {"several_optimizers": 24, "lbfgs": 4}.get(kind, 12)
    assert summary["attempted_steps"] == steps
    assert summary["optimizer_steps"] + summary["skipped_steps"] == steps
    assert summary["nonfinite_loss_share"] == 0.0
    # The first step of LBFGS, which alone is sampled here, begins without gradients.
    assert summary["missing_grad_share"] == (None if kind == "lbfgs" else 0.0)


def test_level_off_touches_nothing() -> None:
    """Without observers torch is not even hooked."""
    watch = Watch("off")
    watch.start()
    assert watch.attachment is None
    assert watch.summary() == {"observe": "off", "not_observed": "everything"}


def test_modules_are_named_by_their_place() -> None:
    """A module of the model under training has its path and class, any other one its class."""
    model, watch = Net(), Watch("off")
    watch.follow(model)
    assert [watch.name_of(m) for m in (model.body[0], model, nn.ReLU())] == ["body.0 (Linear)", "Net", "ReLU"]
