# mypy: allow-untyped-calls
"""Plain PyTorch loops, as anybody writes them, and the observers that watch them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp import GradScaler

from harness.observe.attach import Attachment
from harness.observe.base import Observer


@contextmanager
def watched(*observers: Observer, interval: int = 1) -> Iterator[Attachment]:
    """Attach observers that sample every attempt, and detach them in any case."""
    attachment = Attachment(observers, interval)
    try:
        yield attachment
    finally:
        attachment.detach()


def seen(observer: Observer, train: Callable[[], Any], interval: int = 1) -> dict[str, Any]:
    """Return what an observer says about a training loop; an observer that stepped aside fails the test."""
    with watched(observer, interval=interval) as attachment:
        train()
        summary = attachment.summary()
    assert summary.pop("observer_notes") == []
    return summary


def weight(*values: float, dtype: torch.dtype = torch.float32) -> nn.Parameter:
    """Return a parameter with these values."""
    return nn.Parameter(torch.tensor(values, dtype=dtype))


def step_with(optimizer: torch.optim.Optimizer, *grads: Tensor | list[float] | None) -> None:
    """Take one step with these gradients, one for each parameter."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for parameter, grad in zip(parameters, grads, strict=True):
        parameter.grad = None if grad is None else torch.as_tensor(grad, dtype=parameter.dtype)
    optimizer.step()


def scaled_step(scaler: GradScaler, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Take one step under a scaler: scale, backward, unscale, step, update."""
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()


def loss_that(parameter: nn.Parameter, overflows: bool) -> Tensor:
    """Return a loss whose gradients are inf, or 1."""
    return parameter.sum() * (float("inf") if overflows else 1.0)
