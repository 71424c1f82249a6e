"""Under autocast some layers use half copies of their weights that were made without gradient history.

This is what a weight-cast cache does that was filled under no_grad and is used in training: those layers
compute the right output and never learn. Current torch no longer does it by itself, so it is emulated.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from harness.faults._layers import replace_middle
from harness.faults.base import Context, Fault


class Cached(nn.Module):
    """A layer whose weights have no gradient history while autocast is on."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output."""
        if not torch.is_autocast_enabled(x.device.type):
            return self.inner(x)  # type: ignore[no-any-return]
        copies = {name: weight.detach() for name, weight in self.inner.named_parameters()}
        return functional_call(self.inner, copies, (x,))  # type: ignore[no-any-return]


def change(model: Any, context: Context) -> Any:
    """Let the middle one of the matrix-product layers use such copies."""
    replace_middle(model, Cached, at_least=2)
    return model


FAULT = Fault(
    part="model",
    change=change,
    observation="missing_grad_excess",
    direction="up",
    bound=0.001,
    bound_origin="an exact count against the fp32 twin: 0 when the same parameters get a gradient",
)
