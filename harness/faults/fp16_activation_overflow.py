"""One activation leaves the fp16 range: a gain and its inverse that cancel exactly in fp32 and bf16.

Severity is the base-2 logarithm of the gain. A power of two changes exponents only, so the function
that the model computes stays bitwise the same wherever the range suffices.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from harness.faults._layers import replace_middle
from harness.faults.base import Context, Fault


class Gain(nn.Module):
    """Multiplies by a constant."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        """Return x times the factor."""
        return x * self.factor


def change(model: Any, context: Context) -> Any:
    """Put the gain and its inverse behind the middle one of the model's matrix-product layers."""
    factor = 2.0**context.severity
    replace_middle(model, lambda layer: nn.Sequential(layer, Gain(factor), Gain(1 / factor)), at_least=1)
    return model


FAULT = Fault(
    part="model",
    change=change,
    observation="activation_range_used",
    direction="up",
    bound=0.5,
    bound_origin="half of the fp16 range: the next doubling overflows",
    severity=24,
)
