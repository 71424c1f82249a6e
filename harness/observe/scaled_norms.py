"""Did something bring gradients to a fixed size while they were still multiplied by the loss scale?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer

from harness.observe.base import Observer, Stepped
from harness.observe.gradients import gradients, total_norm

SAME = 1.01
"""Ratio up to which two norms are the same: a clip sets the norm to its limit within rounding, 2**-8 in bf16."""

SMALLER = 0.9
"""What is left of a norm that was clipped; and gradients that differ by less than this are of one size anyway."""

SATURATED = 16
"""Elements of exactly the largest size from which a clamp made them so; a few may be equal by symmetry."""

ATTEMPTS = 3
"""Attempts that have to agree where nothing but their agreement speaks for a clamp."""

USUAL_LIMIT = 100.0
"""Largest limit of a clip in use; most are 0.1 to 10. A larger one beside a loss scale was multiplied by it."""

PART_OF_SCALE = 0.05
"""Least limit, as a part of the scale, for which that is so: 0.05 is then the limit of the true gradients."""


@dataclass(frozen=True)
class Sizes:
    """What is known of the gradients in one attempt."""

    norm_before: float
    largest_before: float
    norm: float
    largest: float
    num_largest: float
    """Elements of exactly the largest size."""
    scale: float


class ScaledNorms(Observer):
    """Sizes of gradients under a live scaler, after the backward pass and before they are unscaled.

    ``fixed_scaled_norm``  the size, 2-norm or largest element, to which the scaled gradients were brought in every
                           sampled attempt, whatever they were before; 0 when there was no such size, or when it is a
                           limit that was multiplied by the scale. It finds clips that do not use torch.nn.utils, and
                           clamps in hooks of the gradients; needs two attempts, or three
    """

    def __init__(self) -> None:
        self.stepped = Stepped()
        """Optimizers that a scaler steps."""
        self.before: dict[int, Tensor] = {}
        """Optimizer -> 2-norm and largest element of its gradients after the backward pass."""
        self.unscaled: set[int] = set()
        self.pending: list[Tensor] = []
        self.sizes: list[Sizes] = []

    def on_backward_end(self) -> None:
        """Measure what it left, for the optimizers that a scaler is known to step."""
        for optimizer in self.stepped.here():
            self.before[id(optimizer)] = _sizes(optimizer)[:2]

    def on_unscale(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """Measure what is unscaled; from here on the gradients have their true size."""
        self._measure(scaler, optimizer)

    def on_scaler_step(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """Measure what the scaler gets, and unscales itself."""
        self.stepped.add(optimizer)
        self._measure(scaler, optimizer)

    def _measure(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        before, scale = self.before.get(id(optimizer)), getattr(scaler, "_scale", None)
        if before is not None and isinstance(scale, Tensor) and id(optimizer) not in self.unscaled:
            now = [part.to(before.device) for part in (_sizes(optimizer), scale.detach().reshape(1))]
            self.pending.append(torch.cat([before, *now]))
        self.unscaled.add(id(optimizer))

    def on_attempt_end(self, step: int) -> None:
        """Forget the attempt."""
        self.before, self.unscaled = {}, set()

    def read(self) -> list[dict[str, Any]]:
        """Keep the sizes as numbers; they are no records by themselves."""
        self.sizes += [
            Sizes(*row) for row in (sizes.tolist() for sizes in self.pending) if all(map(math.isfinite, row))
        ]
        self.pending = []
        return []

    def summary(self) -> dict[str, Any]:
        """Return the fixed size."""
        self.read()
        found = (_clipped(self.sizes), _clamped(self.sizes))
        size = next((size for size in found if size and not is_scaled(size, self.sizes[-1].scale)), 0.0)
        return {"fixed_scaled_norm": size}


def is_scaled(limit: float, scale: float) -> bool:
    """Tell whether a limit was multiplied by the loss scale, as clips of scaled gradients must be."""
    return math.isfinite(limit) and limit > USUAL_LIMIT and limit >= PART_OF_SCALE * scale


def _sizes(optimizer: Optimizer) -> Tensor:
    """Return 2-norm, largest element, and how many elements are that large, of an optimizer's gradients."""
    found = gradients(optimizer)
    if not found:
        return torch.zeros(3)
    largest = torch.stack([grad.abs().max().float() for grad in found]).max()
    num_largest = torch.stack([torch.count_nonzero(grad.abs() == largest) for grad in found]).sum()
    return torch.stack([total_norm(found), largest, num_largest.float()])


def _clipped(sizes: list[Sizes]) -> float:
    """Return the size that every attempt ends with although they began with different, larger ones; or 0."""
    if len(sizes) < 2:
        return 0.0
    for before, after in (
        ([one.norm_before for one in sizes], [one.norm for one in sizes]),
        ([one.largest_before for one in sizes], [one.largest for one in sizes]),
    ):
        is_one_size = 0 < max(after) <= SAME * min(after)
        were_many = min(before) < SMALLER * max(before)
        if is_one_size and were_many and all(a < SMALLER * b for a, b in zip(after, before, strict=True)):
            return max(after)
    return 0.0


def _clamped(sizes: list[Sizes]) -> float:
    """Return the size of the largest elements when there are many of exactly that size in every attempt; or 0."""
    if len(sizes) < ATTEMPTS or min(one.num_largest for one in sizes) < SATURATED:
        return 0.0
    largest = {one.largest for one in sizes}
    return largest.pop() if len(largest) == 1 else 0.0
