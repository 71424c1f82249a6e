"""Of which numbers are these 16-bit numbers a rounding?"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from harness.observe.formats import HALF, MANTISSA_BITS

CASTS = {torch.ops.aten._to_copy.default}  # noqa: SLF001 - the operation behind every cast has this name

MAX_ELEMENTS = 2**24
"""Larger sources are not kept alive: 64 MiB in fp32."""


class Casts:
    """Remembers, without gradients, what was rounded; a source lives as long as its rounding."""

    def __init__(self) -> None:
        self.sources: Any = WeakIdKeyDictionary()

    def look(self, func: Any, args: tuple[Any, ...], result: Tensor) -> None:
        """Follow an operation."""
        if func not in CASTS or result.dtype not in HALF or torch.is_grad_enabled():
            return
        source = args[0]
        if source.dtype == result.dtype and source in self.sources:
            self.sources[result] = self.sources[source]
        elif MANTISSA_BITS.get(source.dtype, 0) > MANTISSA_BITS[result.dtype] and source.numel() <= MAX_ELEMENTS:
            self.sources[result] = source

    def source(self, tensor: Tensor) -> Tensor:
        """Return the numbers of which a tensor is still the rounding, or itself."""
        source = self.sources.get(tensor)
        if source is None or not torch.equal(source.to(tensor), tensor):
            return tensor
        return source.to(tensor.device)  # type: ignore[no-any-return]
