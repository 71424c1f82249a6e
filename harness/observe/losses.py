"""Is the loss a number? Seen where every loop passes it: at the start of a backward pass."""

from __future__ import annotations

import cmath
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
    ``nonfinite_loss_first``  the first of them, counted from 1; 0 without any
    """

    in_between = ("on_backward",)

    def __init__(self) -> None:
        self.pending: list[Tensor] = []
        self.count = 0
        self.nonfinite = 0
        self.first = 0

    def on_backward(self, losses: list[Tensor]) -> None:
        """Keep the loss where it is: nothing waits for the device."""
        if not losses:
            return
        loss = losses[0]
        if can_read(loss):
            # Small tensors that are kept split the host's free memory, and the training gets slower.
            self._count(is_finite=cmath.isfinite(loss.item()))
            return
        self.pending.append(scalar(loss))
        if len(self.pending) >= MAX_PENDING:
            self._settle()

    def read(self) -> list[dict[str, Any]]:
        """Count; there are no samples."""
        self._settle()
        return []

    def summary(self) -> dict[str, Any]:
        """Return the share."""
        self._settle()
        share = self.nonfinite / self.count if self.count else None
        return {"nonfinite_loss_share": share, "nonfinite_loss_first": self.first}

    def _settle(self) -> None:
        pending, self.pending = self.pending, []
        for value in on_host([loss.reshape(()) for loss in pending]):
            self._count(is_finite=math.isfinite(value))

    def _count(self, *, is_finite: bool) -> None:
        self.count += 1
        if not is_finite:
            self.nonfinite += 1
            self.first = self.first or self.count


def can_read(loss: Tensor) -> bool:
    """Tell whether a loss is a number that can be read without waiting for a device."""
    return loss.is_cpu and loss.numel() == 1


def scalar(loss: Tensor) -> Tensor:
    """Return a loss that keeps no larger memory alive: itself when it is a number of its own, else 0 or NaN."""
    value = loss.detach()
    # To ask for the size of its storage would take longer than all the rest of this event.
    alone = loss.numel() == 1 and not loss._is_view() and not loss.is_complex()  # noqa: SLF001 - has no public name
    return value if alone else (value.abs() * 0).sum()
