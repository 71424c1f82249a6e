"""What does a sum in 16 bits stand for, and how far is it off?"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SMALLEST = {torch.float16: 2.0**-24, torch.bfloat16: 2.0**-133}
"""Smallest positive number of a format (IEEE 754 binary16; bfloat16 has fp32's exponents and 7 mantissa bits)."""

LONG = 128
"""Additions from which a running sum of vectors is judged: bf16 stops counting at 256, and a stream of residual blocks
is shorter."""


@dataclass(frozen=True)
class Shadow:
    """A number or vector in float64 that a 16-bit one stands for, and how it came about."""

    exact: Tensor
    size: Tensor
    """The same sum over absolute values."""
    length: int
    """Additions that led to it."""


def shadow_of(value: Tensor) -> Shadow:
    """Return what a number or vector stands for that is no sum."""
    exact = wide(value)
    return Shadow(exact, exact.abs(), 0)


def wide(value: Tensor) -> Tensor:
    """Return the elements in float64, as a vector."""
    return value.detach().double().reshape(-1)


def relative_error(result: Tensor, exact: Tensor, size: Tensor, smallest: float) -> Tensor:
    """Return the largest |result - exact| / size beyond the format's smallest number, a scalar on the device.

    Where the exact value is not finite itself the format is not to blame: 0. Where only the result is not: inf.
    """
    beyond = ((result - exact).abs() - smallest).clamp_min(0).reshape(-1)
    error = (beyond / size.reshape(-1).clamp_min(1e-300)).nan_to_num(nan=float("inf"), posinf=float("inf"))
    return torch.where(torch.isfinite(exact.reshape(-1)), error, 0.0).max()
