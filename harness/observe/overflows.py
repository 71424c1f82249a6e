"""Where does a value first leave the fp16 range: which operation, called from which line?

Looked at are operations with an fp16 result in forward passes, and softmax in fp32 too, which autocast
makes of one in fp16: a row of nothing but -inf has none. A mask of -inf is no overflow by itself: only +inf
and NaN count, and only where every input was still in range.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

SOFTMAX = ("_softmax", "_log_softmax", "_safe_softmax")

MAX_PENDING = 1000
"""Operations kept on the device before they are looked at: each is a few bytes, and looking waits for the device."""


class Overflows:
    """The first operation whose fp16 result is +inf or NaN although its inputs are not."""

    def __init__(self, caller: Callable[[], str]) -> None:
        self.caller = caller
        self.site = ""
        self.pending: list[tuple[str, Tensor]] = []
        self.lost: Any = WeakIdKeyDictionary()
        """Result -> whether it or anything that it came from was out of range; stays on the device."""

    def look(self, func: Any, args: tuple[Any, ...], result: Tensor) -> None:
        """Note one operation."""
        wanted = result.dtype == torch.float16 or (
            result.dtype == torch.float32 and func.overloadpacket.__name__ in SOFTMAX
        )
        if self.site or not wanted or not result.numel() or func.is_view:
            return
        out = out_of_range(result)
        before = [self._known(value) for value in args if self._is_input(value, result)]
        came_lost = torch.stack([flag.to(out.device) for flag in before]).any() if before else torch.zeros_like(out)
        self.lost[result] = out | came_lost
        # What is made of nothing, or with an infinite constant, is meant to be what it is.
        meant = not before or any(isinstance(value, float) and not abs(value) < math.inf for value in args)
        if not meant:
            self.pending.append((f"{func.overloadpacket.__name__} at {self.caller()}", out & ~came_lost))
        if len(self.pending) >= MAX_PENDING:
            self.settle()

    def settle(self) -> None:
        """Find the first one among those noted; waits for the device."""
        flags = on_host([flag for _, flag in self.pending])
        self.site = self.site or next((site for (site, _), flag in zip(self.pending, flags, strict=True) if flag), "")
        self.pending = []

    def _is_input(self, value: Any, result: Tensor) -> bool:
        """Tell whether an argument is a number whose range is still known; one that was written into is not."""
        return isinstance(value, Tensor) and value.is_floating_point() and (value is not result or value in self.lost)

    def _known(self, value: Tensor) -> Tensor:
        known: Tensor | None = self.lost.get(value)
        return out_of_range(value) if known is None else known


def out_of_range(value: Tensor) -> Tensor:
    """Return whether a tensor holds +inf or NaN, as a tensor on its device."""
    largest = value.detach().amax() if value.numel() else value.new_zeros(())
    return ~(largest < float("inf"))


def on_host(scalars: list[Tensor]) -> list[float]:
    """Return the values of scalars of any formats on any devices; one transfer for each kind of them."""
    if not scalars:
        return []
    first = scalars[0]
    if all(scalar.dtype == first.dtype and scalar.device == first.device for scalar in scalars):
        return [float(value) for value in torch.stack(scalars).tolist()]
    return torch.stack([scalar.to(first.device, torch.float64) for scalar in scalars]).tolist()
