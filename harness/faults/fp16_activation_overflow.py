"""One activation leaves the fp16 range: a gain and its inverse that cancel exactly in fp32 and bf16.

Severity is the base-2 logarithm of the gain. A power of two changes exponents only, so the function
that the model computes stays bitwise the same wherever the range suffices.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from harness.errors import UsageError
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
    names = [name for name, module in model.named_modules() if isinstance(module, (nn.Linear, nn.Conv2d))]
    if not names:
        raise UsageError("this incident needs a model with a Linear or Conv2d layer")
    parent_name, _, child = names[len(names) // 2].rpartition(".")
    parent, factor = model.get_submodule(parent_name), 2.0**context.severity
    inner = getattr(parent, child)
    setattr(parent, child, nn.Sequential(inner, Gain(factor), Gain(1 / factor)))
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
