"""Are fp32 weights rounded to 16 bits between two steps, so that small updates never arrive?

As when master weights are refreshed from the 16-bit copy, or weights make a round trip through a format of inference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor
from torch.optim import Optimizer

from harness.observe.base import Observer, picked
from harness.observe.formats import HALF
from harness.observe.gradients import median
from harness.observe.updates import dense_weights

ON = 0.99
"""Share of weights on a grid from which they were put there: of arbitrary fp32 numbers 2**-16 are in bf16."""

OFF = 0.5
"""Share of the moved weights that a step takes off the grid; where it is less, the optimizer puts them there itself."""


@dataclass
class Kept:
    """Some fp32 weights of an optimizer."""

    weights: Tensor
    moving: Tensor
    """Which of them have a gradient."""


class Rounding(Observer):
    """Shares over sampled steps, the first one of each optimizer left out: weights may have been loaded from 16 bits.

    ``rounded_weight_share``     least share of the fp32 weights that begin a step as numbers of bf16, or of fp16,
                                 0 to 1; 0 when it is less than 0.99 in any
    ``stalled_rounded_share``    of the moved ones those that rounding to the nearest puts back to where they were; of
                                 weights that an optimizer rounds itself those with a gradient that stay where they are
    ``stalled_rounded_between``  of the moved ones those that are the same at the next sampled step: what is rounded at
                                 random has moved by then
    """

    def __init__(self) -> None:
        self.before: WeakKeyDictionary[Optimizer, Kept] = WeakKeyDictionary()
        self.last: WeakKeyDictionary[Optimizer, Kept] = WeakKeyDictionary()
        """Its weights at the beginning of the last sampled step."""
        self.off: WeakSet[Optimizer] = WeakSet()
        """Those whose weights were once seen off every grid: nobody rounds them."""
        self.pending: list[Tensor] = []
        self.between: list[Tensor] = []
        self.history: list[dict[str, Any]] = []

    def on_optimizer_step(self, optimizer: Optimizer) -> None:
        """Keep some weights, and compare with those of the last sample."""
        some = _full_weights(optimizer) if optimizer not in self.off else []
        if not some:
            return
        weights, last = picked(some), self.last.get(optimizer)
        if last is not None and _is_plainly_off(weights):
            self.off.add(optimizer)
            self.history.append({"on": 0.0})
            return
        now = Kept(weights, picked([p.grad for p in some if p.grad is not None]) != 0)
        self.before[optimizer] = now
        if last is not None and last.weights.shape == now.weights.shape:
            same = torch.count_nonzero((now.weights == last.weights) & last.moving)
            self.between.append(same / torch.count_nonzero(last.moving).clamp_min(1))

    def on_optimizer_stepped(self, optimizer: Optimizer) -> None:
        """Look where the weights were, and what rounding would leave of the step."""
        old = self.before.pop(optimizer, None)
        if old is None:
            return
        is_first = optimizer not in self.last
        self.last[optimizer] = old
        new = picked(_full_weights(optimizer))
        if not is_first and new.shape == old.weights.shape:
            self.pending.append(torch.stack([_on_grid(old, new, dtype) for dtype in HALF]))

    def read(self) -> list[dict[str, Any]]:
        """Keep the samples as numbers, of the format that fits better; they are no records by themselves."""
        new: list[dict[str, Any]] = []
        for on, off, stalled, same in (max(grids.tolist()) for grids in self.pending):
            new.append({"on": on, "stalled": stalled if off >= OFF else same})
        new += [{"between": share} for share in (float(share) for share in self.between)]
        self.pending, self.between = [], []
        self.history += new
        return []

    def summary(self) -> dict[str, Any]:
        """Return the shares; that of the rounded ones is 0 unless two samples agree."""
        self.read()
        on = [sample["on"] for sample in self.history if "on" in sample]
        is_rounded = len(on) > 1 and min(on) >= ON
        return {
            "rounded_weight_share": min(on) if is_rounded else 0.0,
            "stalled_rounded_share": median(self.history, "stalled", upper=True) if is_rounded else 0.0,
            "stalled_rounded_between": median(self.history, "between") if is_rounded else 0.0,
        }


def _full_weights(optimizer: Optimizer) -> list[Tensor]:
    return [p for p in dense_weights(optimizer) if p.dtype == torch.float32]


def _is_plainly_off(weights: Tensor) -> bool:
    """Tell from the first numbers that weights are on no grid, where it can be told without waiting for a device."""
    some = weights[:64]
    return weights.is_cpu and not any(torch.equal(some, some.to(dtype).float()) for dtype in HALF)


def _on_grid(old: Kept, new: Tensor, dtype: torch.dtype) -> Tensor:
    """Return shares: old weights on the grid of a format, moved ones off it, those that it puts back, unmoved ones."""
    moved = old.moving & (new != old.weights)
    num_moved = torch.count_nonzero(moved).clamp_min(1)
    rounded = new.to(dtype).float()
    on = torch.count_nonzero(old.weights.to(dtype).float() == old.weights) / old.weights.numel()
    off = torch.count_nonzero(moved & (rounded != new)) / num_moved
    back = torch.count_nonzero(moved & (rounded == old.weights)) / num_moved
    same = torch.count_nonzero(old.moving & ~moved) / torch.count_nonzero(old.moving).clamp_min(1)
    return torch.stack([on, off, back, same])
