"""Where in any model does a fault of one layer go? In its middle, behind which there is something left to disturb."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from harness.errors import UsageError


def replace_middle(model: Any, made: Callable[[nn.Module], nn.Module], *, at_least: int) -> None:
    """Put ``made(layer)`` in the place of the middle one of the model's Linear and Conv2d layers, in their order.

    UsageError for a model that has fewer than ``at_least`` of them.
    """
    names = [name for name, module in model.named_modules() if isinstance(module, (nn.Linear, nn.Conv2d))]
    if len(names) < at_least:
        raise UsageError(
            f"this incident needs a model with Linear or Conv2d layers, at least {at_least}; this one has {len(names)}"
        )
    parent_name, _, child = names[len(names) // 2].rpartition(".")
    parent = model.get_submodule(parent_name)
    setattr(parent, child, made(getattr(parent, child)))
