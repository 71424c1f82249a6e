"""Are numbers added up one by one in a format that cannot hold their sum?

The cheap part of what harness.observe.reductions sees: additions of single numbers, or of a few, by Python code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from harness.observe.base import Observer
from harness.observe.overflows import on_host
from harness.observe.shadows import LONG, SMALLEST, Shadow, relative_error, shadow_of, wide
from harness.observe.sites import caller

SHORT = 16
"""Additions below which a sum is left alone: most are no sums, but two or three parts of a loss."""

MAX_PENDING = 100
"""Sums whose last value is kept on the device before they are looked at: looking waits for it."""


@dataclass(frozen=True)
class Running:
    """A sum in the making."""

    shadow: Shadow
    version: int
    """How often the number had been changed in place when we last saw it."""
    chain: int
    """Which sum it is."""
    site: str
    """The line that made its first addition."""


class RunningSums(Observer):
    """Follows 16-bit numbers to which Python code adds, by ``+``, ``+=`` and ``sum``.

    ``running_sum_error``  the largest |sum - exact| / (the same sum over absolute values), beyond the format's smallest
                           number, over the last values of sums of at least 16 numbers; 0 when there was none
    ``running_sum_site``   the line that adds, of the largest error
    """

    in_between = ("on_add",)

    def __init__(self) -> None:
        self.sums: Any = WeakIdKeyDictionary()
        self.chains = 0
        self.last: dict[int, tuple[Tensor, Running]] = {}
        """Sum -> its last value, and what it should be."""
        self.worst = (0.0, "")

    def on_add(self, result: Tensor, one: Tensor, before: Tensor, other: Any) -> None:
        """Add exactly what was added in 16 bits."""
        summand = self._shadow(other)
        if summand is None or summand.exact.numel() not in {1, result.numel()}:
            return
        known: Running | None = self.sums.get(one)
        # In place, the number has been changed once more by now, and by nothing else if the sum is still ours.
        if known is None or known.version != _version(one) - (result is one and not one.is_inference()):
            self.chains += 1
            known = Running(shadow_of(before), 0, self.chains, f"add at {caller()}")
        base = known.shadow
        length = max(base.length, summand.length) + 1
        shadow = Shadow(base.exact + summand.exact, base.size + summand.size, length)
        if shadow.exact.numel() != result.numel():
            return
        running = self.sums[result] = replace(known, shadow=shadow, version=_version(result))
        if length >= (SHORT if result.numel() == 1 else LONG):
            self.last[running.chain] = (result.detach().clone(), running)
        if len(self.last) >= MAX_PENDING:
            self._settle()

    def read(self) -> list[dict[str, Any]]:
        """Look at what was kept; there are no samples."""
        self._settle()
        return []

    def summary(self) -> dict[str, Any]:
        """Return the worst error and its place."""
        self._settle()
        error, site = self.worst
        return {"running_sum_error": error, "running_sum_site": site}

    def _shadow(self, value: Any) -> Shadow | None:
        """Return what an addend is exactly: a sum itself, or its own value."""
        if not isinstance(value, Tensor):
            return shadow_of(torch.tensor(float(value), dtype=torch.float64))
        if not value.is_floating_point() or value.layout != torch.strided:
            return None
        known: Running | None = self.sums.get(value)
        return known.shadow if known is not None and known.version == _version(value) else shadow_of(value)

    def _settle(self) -> None:
        kept, self.last = list(self.last.values()), {}
        errors = on_host([_error(value, running.shadow) for value, running in kept])
        for (_, running), error in zip(kept, errors, strict=True):
            self.worst = max(self.worst, (error, running.site), key=lambda worst: worst[0])


def _error(value: Tensor, shadow: Shadow) -> Tensor:
    return relative_error(wide(value), shadow.exact, shadow.size, SMALLEST[value.dtype])


def _version(value: Tensor) -> int:
    """Return how often a tensor was changed in place; one of inference mode does not count."""
    return 0 if value.is_inference() else value._version  # noqa: SLF001 - the documented counter of autograd
