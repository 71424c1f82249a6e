"""Are gradients thrown away because they are not finite, by a loop that scales its loss without a GradScaler?"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from harness.observe.base import Observer
from harness.observe.gradients import total_norm
from harness.observe.overflows import on_host

MAX_PENDING = 1000
"""Norms kept on the device before they are looked at: looking waits for it."""


@dataclass
class Thrown:
    """Gradients that were set to zero unused."""

    place: int
    """Their backward pass, counted from 1."""
    norm: Tensor
    is_lead: bool
    """Whether a schedule advanced after that pass."""


class Discards(Observer):
    """Gradients that are set to zero although no attempt followed their backward pass.

    ``discarded_share_late``  of the backward passes in the second half those whose gradients were inf or NaN and were
                              thrown away, 0 to 1; None without a backward pass
    ``discarded_leads``       times a schedule advanced after one of these passes
    """

    in_between = ("on_backward", "on_zero_grad", "on_schedule")

    def __init__(self) -> None:
        self.passes = 0
        self.advanced = 0
        """The last backward pass after which a schedule advanced."""
        self.pending: list[Thrown] = []
        self.discarded: list[int] = []
        """The backward passes whose gradients were not finite and were thrown away."""
        self.leads = 0

    def on_backward(self, losses: list[Tensor]) -> None:
        """Count."""
        self.passes += 1

    def on_zero_grad(self, owner: Optimizer | nn.Module) -> None:
        """Keep what is thrown away."""
        if len(self.pending) >= MAX_PENDING:
            self._settle()
        grads = [p.grad.detach() for p in _parameters(owner) if p.grad is not None and not p.grad.is_sparse]
        if grads:
            self.pending.append(Thrown(self.passes, total_norm(grads), self.advanced == self.passes))

    def on_schedule(self, scheduler: Any) -> None:
        """Note an advance; it may come after the gradients were thrown away."""
        self.advanced = self.passes
        if self.pending and self.pending[-1].place == self.passes:
            self.pending[-1].is_lead = True

    def summary(self) -> dict[str, Any]:
        """Return share and count."""
        self._settle()
        late = self.passes - self.passes // 2
        count = sum(place > self.passes // 2 for place in self.discarded)
        return {"discarded_share_late": count / late if late else None, "discarded_leads": self.leads}

    def _settle(self) -> None:
        pending, self.pending = self.pending, []
        for thrown, norm in zip(pending, on_host([thrown.norm for thrown in pending]), strict=True):
            if not math.isfinite(norm):
                self.discarded.append(thrown.place)
                self.leads += thrown.is_lead


def _parameters(owner: Optimizer | nn.Module) -> Iterable[Tensor]:
    if isinstance(owner, nn.Module):
        return owner.parameters()
    return (p for group in owner.param_groups for p in group["params"])
