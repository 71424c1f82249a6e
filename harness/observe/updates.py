"""Do the updates arrive in the weights, or do they round away?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from harness.observe.base import Observer, dense, trainable
from harness.observe.gradients import median

ELEMENTS_PER_TENSOR = 4096
"""Elements compared per tensor, evenly spaced: a share of 0.30 is then known to +-0.015 (2 sigma, binomial)."""

HALF = (torch.bfloat16, torch.float16)


class Updates(Observer):
    """Stalled updates, and the number formats of weights and optimizer state.

    ``stalled_update_share``  weights with a non-zero gradient that a step left bitwise unchanged, 0 to 1
    ``stalled_half_share``    the same among the weights in a 16-bit format; 0 without such weights
    ``half_weight_share``     trainable weights that the optimizer holds in a 16-bit format, 0 to 1
    ``half_state_share``      optimizer state tensors (element-wise ones) in a 16-bit format, 0 to 1
    """

    def __init__(self, sampled: Callable[[], bool]) -> None:
        self.sampled = sampled
        self.before: list[tuple[Tensor, Tensor, Tensor]] = []
        self.current: list[Tensor] = []
        self.pending: list[tuple[int, Tensor]] = []
        self.history: list[dict[str, Any]] = []
        self.optimizers: list[Optimizer] = []

    def on_optimizer_step(self, optimizer: Optimizer) -> None:
        """Keep some weights, with whether their gradient is non-zero."""
        if not any(known is optimizer for known in self.optimizers):
            self.optimizers.append(optimizer)
        if not self.sampled() or all(float(group["lr"]) == 0 for group in optimizer.param_groups):
            return
        for parameter in trainable(optimizer):
            grad = parameter.grad
            if grad is None or grad.is_sparse:
                continue
            self.before.append((parameter, thinned(parameter).clone(), thinned(dense(grad)) != 0))

    def on_optimizer_stepped(self, optimizer: Optimizer) -> None:
        """Compare with the weights now."""
        if not self.before:
            return
        counts = []
        for parameter, old, moving in self.before:
            stalled, moved = ((thinned(parameter) == old) & moving).sum(), moving.sum()
            half = parameter.dtype in HALF
            counts.append(torch.stack([stalled, moved, stalled * half, moved * half]))
        self.current.append(torch.stack(counts).sum(0))
        self.before = []

    def on_attempt_end(self, step: int) -> None:
        """Keep the sample of this attempt."""
        if self.current:
            self.pending.append((step, torch.stack(self.current).sum(0)))
            self.current = []

    def read(self) -> list[dict[str, Any]]:
        """Return the samples as numbers."""
        new = []
        for step, counts in self.pending:
            stalled, moving, half_stalled, half_moving = counts.tolist()
            sample = {"step": step}
            sample |= {"stalled_update_share": stalled / moving} if moving else {}
            sample |= {"stalled_half_share": half_stalled / half_moving} if half_moving else {}
            new.append(sample)
        self.pending = []
        self.history += new
        return new

    def summary(self) -> dict[str, Any]:
        """Return the median stall and the number formats."""
        self.read()
        weights = [p for o in self.optimizers for group in o.param_groups for p in group["params"] if p.requires_grad]
        return {
            "stalled_update_share": median(self.history, "stalled_update_share"),
            "stalled_half_share": median(self.history, "stalled_half_share") if half_share(weights) else 0.0,
            "half_weight_share": half_share(weights),
            "half_state_share": half_share(list(self._state_tensors())),
            "weight_dtypes": ",".join(sorted({str(p.dtype).removeprefix("torch.") for p in weights})),
        }

    def _state_tensors(self) -> Iterator[Tensor]:
        for optimizer in self.optimizers:
            for state in optimizer.state.values():
                yield from (v for v in state.values() if isinstance(v, Tensor) and v.numel() > 1)


def thinned(tensor: Tensor) -> Tensor:
    """Return at most ELEMENTS_PER_TENSOR elements, evenly spaced, as a vector."""
    flat = tensor.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // ELEMENTS_PER_TENSOR)]


def half_share(tensors: list[Tensor]) -> float | None:
    """Return the share of elements held in a 16-bit format, or None without elements."""
    total = sum(t.numel() for t in tensors)
    return sum(t.numel() for t in tensors if t.dtype in HALF) / total if total else None
