"""How would a model answer if every number were fp32, also where its own code asks for fewer bits?"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

NARROW = frozenset(
    {torch.float16, torch.bfloat16}
    | {getattr(torch, name) for name in dir(torch) if name.startswith("float8_") and name != "float8_e8m0fnu"}
)
"""Formats with fewer significant bits than fp32; float8_e8m0fnu holds scales and is left alone."""


class InFp32(TorchDispatchMode):
    """Lets every operation that asks for a narrow format give fp32 instead, casts and autocast regions included."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = {name: widened(value) for name, value in (kwargs or {}).items()}
        return func(*map(widened, args), **given)


def widened(value: Any) -> Any:
    """Return fp32 for a narrow format, anything else as it is."""
    return torch.float32 if isinstance(value, torch.dtype) and value in NARROW else value


def fp32_copy(model: nn.Module) -> nn.Module:
    """Return a copy of a model with all its floating-point weights and buffers in fp32."""
    return copy.deepcopy(model).float()
