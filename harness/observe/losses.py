"""Is the loss a number? Seen where every loop passes it: at the start of a backward pass."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from harness.observe.base import Observer
from harness.observe.overflows import on_host

MAX_PENDING = 1000
"""Losses kept on the device before they are counted: they are scalars, and counting waits for the device."""


class Losses(Observer):
    """Counts over every backward pass.

    ``nonfinite_loss_share``  backward passes that began at inf or NaN / all of them, 0 to 1; None without any
    """

    def __init__(self) -> None:
        self.pending: list[Tensor] = []
        self.count = 0
        self.nonfinite = 0

    def on_backward(self, losses: list[Tensor]) -> None:
        """Keep the loss as it is: nothing is computed and nothing waits."""
        self.pending += [scalar(loss.detach()) for loss in losses[:1]]
        if len(self.pending) >= MAX_PENDING:
            self._settle()

    def read(self) -> list[dict[str, Any]]:
        """Count; there are no samples."""
        self._settle()
        return []

    def summary(self) -> dict[str, Any]:
        """Return the share."""
        self._settle()
        return {"nonfinite_loss_share": self.nonfinite / self.count if self.count else None}

    def _settle(self) -> None:
        values = on_host([loss.reshape(()).double() for loss in self.pending])
        self.count += len(values)
        self.nonfinite += sum(not math.isfinite(value) for value in values)
        self.pending = []


def scalar(loss: Tensor) -> Tensor:
    """Return a loss that keeps no larger memory alive: itself when it is a number of its own, else 0 or NaN."""
    alone = loss.numel() == 1 and loss.untyped_storage().nbytes() <= loss.element_size()
    return loss if alone else (loss * 0).sum()
