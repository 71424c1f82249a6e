# mypy: allow-untyped-calls
"""Models that are trained for a moment, and evaluated under observation."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from harness.observe.attach import Attachment
from harness.observe.evaluations import Evaluations
from harness.observe.reductions import Reductions
from tests.observe.loops import watched

BF16 = torch.bfloat16

Evaluate = Callable[[nn.Module, Tensor], Any]


class Offset(nn.Module):
    """Subtracts a large number: exact in fp32, and without the small part of its input in bf16."""

    def __init__(self, offset: float = 1000.0) -> None:
        super().__init__()
        self.inner = nn.Linear(1, 8)
        nn.init.constant_(self.inner.weight, 1.0)
        nn.init.constant_(self.inner.bias, offset)
        self.offset, self.calls = offset, 0

    def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
        """Return about x, 8 times."""
        self.calls += 1
        shifted: Tensor = self.inner(x) - self.offset
        return shifted * scale


def samples() -> Tensor:
    """Return 64 inputs between 0 and 1."""
    return torch.linspace(0.0, 1.0, 64)[:, None]


def train(module: nn.Module, steps: int = 1) -> None:
    """Take some steps that change nothing but the last digits."""
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-6)
    for _ in range(steps):
        module(samples()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def observer_of(attachment: Attachment) -> Evaluations:
    """Return the observer under test; that it stepped aside fails the test."""
    assert attachment.notes == []
    return next(entry for entry in attachment.observers if isinstance(entry, Evaluations))


def gap_of(evaluate: Evaluate, model: nn.Module | None = None, times: int = 1) -> float | None:
    """Train, evaluate, and return the gap."""
    model, reductions = model or Offset(), Reductions()
    with reductions, watched(Evaluations(lambda: attachment.attempts + 1, reductions.casts)) as attachment:
        for _ in range(times):
            train(model)
            model.eval()
            with torch.no_grad():
                evaluate(model, samples())
            model.train()
        gap: float | None = observer_of(attachment).summary()["eval_output_gap"]
    return gap


def cast(model: nn.Module, x: Tensor) -> None:
    """Evaluate under autocast."""
    with torch.autocast("cpu", BF16):
        model(x)


def half_copy(model: nn.Module, x: Tensor) -> None:
    """Evaluate a copy in bf16."""
    copy.deepcopy(model).to(BF16)(x.to(BF16))
