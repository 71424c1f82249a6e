"""Did something bring gradients to a fixed size while they were still multiplied by the loss scale?"""

from __future__ import annotations

import math
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer

from harness.observe.base import Observer
from harness.observe.gradients import gradients, total_norm
from harness.observe.overflows import on_host

SAME = 1.01
"""Ratio up to which two norms are the same: a clip sets the norm to its limit within rounding, 2**-8 in bf16."""

SMALLER = 0.9
"""What is left of a norm that was clipped; and gradients that differ by less than this are of one size anyway."""


class ScaledNorms(Observer):
    """Sizes of gradients under a live scaler, after the backward pass and at ``scaler.step`` without an ``unscale_``.

    ``fixed_scaled_norm``  the size, 2-norm or largest element, to which the scaled gradients were brought in every
                           sampled attempt, whatever they were before; 0 when there was no such size. It finds clips
                           that do not use torch.nn.utils; needs two attempts
    """

    def __init__(self) -> None:
        self.scalers: WeakKeyDictionary[Optimizer, GradScaler] = WeakKeyDictionary()
        self.before: dict[int, Tensor] = {}
        """Optimizer -> 2-norm and largest element of its gradients after the backward pass."""
        self.unscaled: set[int] = set()
        self.pending: list[Tensor] = []
        self.sizes: list[list[float]] = []
        """Norm before, largest element before, and the two at the step, for each sampled attempt."""

    def on_backward_end(self) -> None:
        """Measure what it left, for the optimizers that a scaler is known to step."""
        for optimizer in list(self.scalers):
            self.before[id(optimizer)] = _sizes(optimizer)

    def on_unscale(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """From here on the gradients have their true size."""
        self.unscaled.add(id(optimizer))

    def on_scaler_step(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """Measure what the scaler gets."""
        self.scalers[optimizer] = scaler
        before = self.before.get(id(optimizer))
        if before is not None and id(optimizer) not in self.unscaled:
            self.pending.append(torch.cat([before, _sizes(optimizer).to(before.device)]))

    def on_attempt_end(self, step: int) -> None:
        """Forget the attempt."""
        self.before, self.unscaled = {}, set()

    def read(self) -> list[dict[str, Any]]:
        """Keep the sizes as numbers; they are no samples by themselves."""
        values = iter(on_host([size for sizes in self.pending for size in sizes]))
        self.sizes += [list(row) for row in zip(values, values, values, values, strict=True)]
        self.pending = []
        return []

    def summary(self) -> dict[str, Any]:
        """Return the fixed size."""
        self.read()
        finite = [row for row in self.sizes if all(math.isfinite(size) for size in row)]
        fixed = (_fixed([(row[kind], row[kind + 2]) for row in finite]) for kind in (0, 1))
        return {"fixed_scaled_norm": next((size for size in fixed if size), 0.0)}


def _sizes(optimizer: Optimizer) -> Tensor:
    """Return the 2-norm and the largest element of an optimizer's gradients."""
    found = gradients(optimizer)
    if not found:
        return torch.zeros(2)
    largest = torch.stack([grad.abs().max().float() for grad in found]).max()
    return torch.stack([total_norm(found), largest])


def _fixed(pairs: list[tuple[float, float]]) -> float:
    """Return the size that every pair (before, after) ends with although they began with different ones, or 0."""
    if len(pairs) < 2:
        return 0.0
    before, after = zip(*pairs, strict=True)
    is_one_size = 0 < max(after) <= SAME * min(after)
    were_many = min(before) < SMALLER * max(before)
    return max(after) if is_one_size and were_many and all(b < SMALLER * a for a, b in pairs) else 0.0
