"""Are gradients divided by the loss scale once for each optimizer that holds their weights?"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer

from harness.observe.base import Observer


class Unscales(Observer):
    """Which optimizers unscale the gradients of one backward pass.

    ``shared_unscale_share``  of the weights of all these optimizers those that two of them hold: their gradients are
                              divided twice; the largest share of any step, 0 to 1
    """

    in_between = ("on_scaler_step",)
    under_scaler = ("on_backward", "on_unscale", "on_scaler_update")

    def __init__(self) -> None:
        self.current: list[Optimizer] = []
        """Those that unscaled since the last backward pass."""
        self.shares: dict[tuple[int, ...], float] = {}
        """Optimizers that unscaled together -> the share."""

    def on_backward(self, losses: list[Tensor]) -> None:
        """New gradients are scaled."""
        self.current = []

    def on_unscale(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """Note one that unscales."""
        if not any(known is optimizer for known in self.current):
            self.current.append(optimizer)

    def on_scaler_step(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """The scaler unscales before the step, where nobody did."""
        self.on_unscale(scaler, optimizer)

    def on_scaler_update(self, scaler: GradScaler) -> None:
        """Compare the weights of those that unscaled; once for the same ones."""
        together = tuple(map(id, self.current))
        if len(together) > 1 and together not in self.shares:
            self.shares[together] = _shared(self.current)
        self.current = []

    def summary(self) -> dict[str, Any]:
        """Return the largest share."""
        return {"shared_unscale_share": max(self.shares.values(), default=0.0)}


def _shared(optimizers: list[Optimizer]) -> float:
    """Return the share of weights with a gradient that more than one optimizer holds."""
    seen: set[int] = set()
    total = shared = 0
    for parameter in (p for o in optimizers for group in o.param_groups for p in group["params"] if p.grad is not None):
        total += parameter.numel()
        shared += parameter.numel() if id(parameter) in seen else 0
        seen.add(id(parameter))
    return shared / total if total else 0.0
