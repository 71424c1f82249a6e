"""How are calls of modules followed from their begin to their end, with what they were called with?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook


class Handles:
    """Several hooks that go together."""

    def __init__(self, *handles: Any) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Remove them."""
        for handle in self.handles:
            handle.remove()


def hooked(hook: Callable[..., None], tell: Callable[..., None], *, follow: bool) -> Handles:
    """Register a forward hook, and where calls are to be followed those that tell ``on_call`` and ``on_called``."""

    def called(module: nn.Module, args: tuple[Any, ...], *rest: Any) -> None:
        # After an exception torch leaves the keywords out, and the output is None.
        kwargs, output = rest if len(rest) == 2 else ({}, None)
        tell("on_called", module, args, kwargs, output)

    if not follow:
        return Handles(register_module_forward_hook(hook))
    return Handles(
        register_module_forward_hook(hook),
        register_module_forward_pre_hook(lambda module, _args: tell("on_call", module, torch.is_grad_enabled())),
        register_module_forward_hook(called, with_kwargs=True, always_call=True),
    )
