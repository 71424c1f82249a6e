"""How large are the gradients, and how many of them are zero or not finite?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer

from harness.observe.base import Observer, dense, trainable


class Gradients(Observer):
    """Norm, zero share and non-finite share as they are when the optimizer takes its step.

    ``grad_norm``            norm over all parameters at the step (after unscale and clip)
    ``zero_grad_share``      exact zeros / elements, 0 to 1; judge it only as the excess over an fp32 twin
    ``nonfinite_grad_share`` inf or NaN / elements at the attempt, taken or skipped
    """

    def __init__(self, sampled: Callable[[], bool]) -> None:
        self.sampled = sampled
        self.pending: list[tuple[int, dict[str, Tensor]]] = []
        self.history: list[dict[str, Any]] = []
        self.current: dict[str, Tensor] = {}

    def on_scaler_step(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """Look at what may make the scaler skip."""
        if self.sampled():
            self.current |= {"nonfinite_grad_share": share(optimizer, lambda g: ~torch.isfinite(g))}

    def on_optimizer_step(self, optimizer: Optimizer) -> None:
        """Look at what the optimizer is about to use."""
        if not self.sampled():
            return
        self.current["grad_norm"] = total_norm(optimizer)
        self.current["zero_grad_share"] = share(optimizer, lambda g: g == 0)
        if "nonfinite_grad_share" not in self.current:
            self.current["nonfinite_grad_share"] = share(optimizer, lambda g: ~torch.isfinite(g))

    def on_attempt_end(self, step: int) -> None:
        """Keep the sample of this attempt."""
        if self.current:
            self.pending.append((step, self.current))
            self.current = {}

    def read(self) -> list[dict[str, Any]]:
        """Return the samples as numbers."""
        new = [{"step": step} | {name: float(value) for name, value in sample.items()} for step, sample in self.pending]
        self.pending = []
        self.history += new
        return new

    def summary(self) -> dict[str, Any]:
        """Return medians and maxima over the samples."""
        self.read()
        return {
            "grad_norm_median": median(self.history, "grad_norm"),
            "zero_grad_share": median(self.history, "zero_grad_share"),
            "nonfinite_grad_share": largest(self.history, "nonfinite_grad_share"),
        }


def total_norm(optimizer: Optimizer) -> Tensor:
    """Return the 2-norm over all gradients of an optimizer, in fp32."""
    norms = [
        torch.linalg.vector_norm(dense(p.grad), dtype=torch.float32) for p in trainable(optimizer) if p.grad is not None
    ]
    return torch.linalg.vector_norm(torch.stack(norms)) if norms else torch.zeros(())


def share(optimizer: Optimizer, condition: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the share of gradient elements that fulfil a condition, 0 to 1."""
    counts, total = [], 0
    for parameter in trainable(optimizer):
        values = dense(parameter.grad)  # type: ignore[arg-type]
        counts.append(condition(values).sum())
        total += values.numel()
    return torch.stack(counts).sum() / total if total else torch.zeros(())


def median(history: list[dict[str, Any]], name: str) -> float | None:
    """Return the lower median of a sampled number, or None when it was never sampled."""
    values = sorted(sample[name] for sample in history if name in sample)
    return values[(len(values) - 1) // 2] if values else None


def largest(history: list[dict[str, Any]], name: str) -> float | None:
    """Return the largest value of a sampled number, or None when it was never sampled."""
    return max((sample[name] for sample in history if name in sample), default=None)
