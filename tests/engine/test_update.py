"""From gradients to new weights: true size first, then the bound, then the step, if it is taken."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.amp import GradScaler

from harness.engine.update import Update, make_optimizer

SCALE = 1024.0


def one_weight(gradient: float) -> nn.Linear:
    """Return a model of one weight of value 1 with this gradient."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    model.weight.grad = torch.full((1, 1), gradient)
    return model


def update_of(model: nn.Module, clip_norm: float = 1.0, *, scaled: bool = True) -> Update:
    """Return an update by plain descent with rate 0.1."""
    scaler = GradScaler("cpu", init_scale=SCALE, enabled=scaled)
    scaler.scale(torch.ones(()))  # makes the scale, as the backward pass of a step does
    return Update(model, torch.optim.SGD(model.parameters(), lr=0.1), scaler, clip_norm)


@pytest.mark.parametrize(
    ("true_gradient", "clip_norm", "weight"),
    [(3.0, 1.0, 0.9), (0.5, 1.0, 0.95), (-3.0, 2.0, 1.2), (3.0, 0.0, 0.7), (1e-20, 1.0, 1.0)],
)
@pytest.mark.parametrize("scaled", [True, False])
def test_threshold_is_meant_for_true_gradients(
    true_gradient: float, clip_norm: float, weight: float, scaled: bool
) -> None:
    """The scale is taken out before the norm is bounded; 0 does not bound."""
    model = one_weight(true_gradient * (SCALE if scaled else 1.0))
    assert update_of(model, clip_norm, scaled=scaled)()
    assert model.weight.item() == pytest.approx(weight, rel=1e-5)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_step_that_the_scaler_skips_is_not_taken(value: float) -> None:
    """The weights stay, the scale is halved, and the caller is told."""
    model = one_weight(value)
    update = update_of(model)
    assert not update()
    assert model.weight.item() == 1.0
    assert update.scaler.get_scale() == SCALE / 2
    assert update.counter.taken == 0


def test_taken_steps_are_counted() -> None:
    """Also over several updates."""
    model = one_weight(1.0)
    update = update_of(model, scaled=False)
    for _ in range(3):
        model.weight.grad = torch.ones(1, 1)
        assert update()
    assert update.counter.taken == 3


def test_gradients_are_gone_after_an_update() -> None:
    """Also those of a step that was skipped: the next one starts from nothing."""
    for value in (1.0, math.inf):
        model = one_weight(value)
        update_of(model)()
        assert model.weight.grad is None


def test_sparse_gradient_is_made_dense() -> None:
    """Clipping and AdamW know no other; rows that were not looked up stay."""
    model = nn.Embedding(4, 2, sparse=True)
    before = model.weight.detach().clone()
    (model(torch.tensor([1, 1])).sum() * 8).backward()
    update = Update(
        model, torch.optim.AdamW(model.parameters(), weight_decay=0.0), GradScaler("cpu", enabled=False), 1.0
    )
    assert update()
    moved = (model.weight != before).any(1)
    assert moved.tolist() == [False, True, False, False]


def test_gradient_may_be_missing_later() -> None:
    """A sparse parameter that a batch does not use has no gradient."""
    model = nn.Embedding(4, 2, sparse=True)
    update = Update(model, torch.optim.SGD(model.parameters()), GradScaler("cpu", enabled=False), 1.0)
    model(torch.tensor([1])).sum().backward()
    assert update()
    assert update()


@pytest.mark.parametrize(("name", "kind"), [("adamw", torch.optim.AdamW), ("sgd", torch.optim.SGD)])
def test_optimizer_gets_what_is_trainable(name: str, kind: type) -> None:
    """Frozen parameters are not even decayed."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    optimizer = make_optimizer(name, model, 0.1, 0.01)
    [group] = optimizer.param_groups
    assert type(optimizer) is kind
    assert group["params"] == list(model[1].parameters())
    assert (group["lr"], group["weight_decay"]) == (0.1, 0.01)
