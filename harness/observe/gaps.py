"""How far apart are the outputs of one batch in two formats, measured by what sets its samples apart?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

MAX_ELEMENTS = 2**22
"""Elements compared of one output, evenly spaced in each sample: 32 MiB in float64."""

MASKED = -5000.0
"""What is below this in both formats is a mask, written as a large negative number, often as another one in each."""

CONSTANT = 1e-5
"""Spread over the samples, relative to their size, below which an output says nothing about them: fp32 itself is off by
6e-8 of the size in each operation."""


def output_gap(coarse: Sequence[Tensor], exact: Sequence[Tensor]) -> float | None:
    """Return ||coarse - exact|| / ||exact - its mean over the samples||, over all outputs that tell samples apart.

    The square is the share of the variance of the outputs that is lost. inf where only the coarse output is not finite;
    None when the outputs cannot be compared: other shapes, one sample, or the same for all samples.
    """
    if [value.shape for value in coarse] != [value.shape for value in exact]:
        return None
    pairs = [_squares(_rows(one), _rows(other)) for one, other in zip(coarse, exact, strict=True) if one.numel()]
    # One transfer for all outputs.
    numbers = torch.stack(pairs).tolist() if pairs else []
    told = [(apart, spread) for apart, spread, size in numbers if spread > CONSTANT**2 * size]
    apart, spread = (sum(column) for column in zip(*told, strict=True)) if told else (0.0, 0.0)
    if not 0 < spread < math.inf:
        return None
    return math.sqrt(apart / spread) if apart < math.inf else math.inf


def _rows(value: Tensor) -> Tensor:
    """Return one row of numbers for each sample; a batch of one sample is parted further, where it has parts."""
    value = value.detach()
    while value.ndim > 1 and value.shape[0] == 1:
        value = value[0]
    rows = value.reshape(value.shape[0] if value.ndim else 1, -1)
    return rows[:, :: max(1, rows.numel() // MAX_ELEMENTS)].double()


def _squares(coarse: Tensor, exact: Tensor) -> Tensor:
    """Return the squares of the difference, of the spread and of the size, summed: three numbers on the device."""
    counted = exact.isfinite() & ~((coarse < MASKED) & (exact < MASKED))
    exact = exact.where(counted, 0.0)
    mean = exact.sum(0) / counted.sum(0).clamp_min(1)
    apart = (coarse - exact).where(counted, 0.0).square().sum().nan_to_num(nan=math.inf, posinf=math.inf)
    spread = (exact - mean).where(counted, 0.0).square().sum()
    return torch.stack([apart, spread, exact.square().sum()]).cpu()
