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

SOFTMAX = {torch.ops.aten._softmax.default, torch.ops.aten._log_softmax.default, torch.ops.aten._safe_softmax.default}

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
        wanted = result.dtype == torch.float16 or (result.dtype == torch.float32 and func in SOFTMAX)
        if self.site or not wanted or not result.numel() or func.is_view:
            return
        out = out_of_range(result)
        before = [self._known(value) for value in args if isinstance(value, Tensor) and value.is_floating_point()]
        given = not before or any(isinstance(value, float) and not abs(value) < math.inf for value in args)
        came_lost = torch.stack([flag.to(out.device) for flag in before]).any() if not given else torch.ones_like(out)
        self.lost[result] = out | came_lost
        first = out & ~came_lost
        self.pending.append((f"{func.overloadpacket.__name__} at {self.caller()}", first))
        if len(self.pending) >= MAX_PENDING:
            self.settle()

    def settle(self) -> None:
        """Find the first one among those noted; waits for the device."""
        flags = torch.stack([flag for _, flag in self.pending]).tolist() if self.pending else []
        self.site = self.site or next((site for (site, _), flag in zip(self.pending, flags, strict=True) if flag), "")
        self.pending = []

    def _known(self, value: Tensor) -> Tensor:
        known: Tensor | None = self.lost.get(value)
        return out_of_range(value) if known is None else known


def out_of_range(value: Tensor) -> Tensor:
    """Return whether a tensor holds +inf or NaN, as a tensor on its device."""
    largest = value.detach().amax() if value.numel() else value.new_zeros(())
    return ~(largest < float("inf"))


def on_host(scalars: list[Tensor]) -> list[float]:
    """Return the values of scalars that may lie on several devices; one transfer."""
    return torch.stack([scalar.to(scalars[0].device) for scalar in scalars]).tolist() if scalars else []
