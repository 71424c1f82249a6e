"""Through which functions of torch do clips, schedules and sums go? One route for each kind."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import lr_scheduler

from harness.observe.formats import HALF
from harness.observe.patches import Patches

Tell = Callable[..., None]
"""Passes an event to the observers: its name, and what is told."""


class Clips:
    """Tells ``on_clip``."""

    def __init__(self, patches: Patches, tell: Tell) -> None:
        self.tell = tell
        self.norm_type: Any = None
        # The functions behind clip_grad_norm_: a script may have imported that name before anybody attached.
        for owner, get_norm, clip in (
            (torch.nn.utils.clip_grad, "_get_total_norm", "_clip_grads_with_norm_"),
            (torch.nn.utils, "get_total_norm", "clip_grads_with_norm_"),
        ):
            patches.wrap(owner, get_norm, before=self._before_norm, event="on_clip")
            patches.replace(owner, clip, self._clip, event="on_clip")
        for owner in (torch.nn.utils, torch.nn.utils.clip_grad):
            patches.replace(owner, "clip_grad_value_", self._clip, event="on_clip")

    def _before_norm(self, *args: Any, **kwargs: Any) -> None:
        self.norm_type = kwargs.get("norm_type", args[1] if len(args) > 1 else 2.0)

    def _clip(self, original: Callable[..., Any], parameters: Any, *args: Any, **kwargs: Any) -> Any:
        """Clip, by a norm or by value, and tell the 2-norm before it where it is known."""
        # A generator can be read once only, and the observers need the parameters too.
        listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        limit, norm = (*args, None, None)[:2]
        norm = kwargs.get("total_norm", norm) if self.norm_type == 2 else None
        result = original(listed, *args, **kwargs)
        limit = kwargs.get("max_norm", kwargs.get("clip_value", limit))
        self.tell("on_clip", listed, limit, norm if isinstance(norm, Tensor) else None)
        self.norm_type = None
        return result


class Schedules:
    """Tells ``on_schedule``."""

    def __init__(self, patches: Patches, tell: Tell) -> None:
        self.tell = tell
        self.is_advancing = False
        for cls in _scheduler_classes():
            patches.replace(cls, "step", self._step, event="on_schedule")

    def _step(self, original: Callable[..., Any], scheduler: Any, *args: Any, **kwargs: Any) -> Any:
        """Advance; a schedule that is made of others, or that calls its base class, advances once."""
        if self.is_advancing:
            return original(scheduler, *args, **kwargs)
        self.is_advancing = True
        try:
            result = original(scheduler, *args, **kwargs)
        finally:
            self.is_advancing = False
        self.tell("on_schedule", scheduler)
        return result


MAX_ELEMENTS = 64
"""Elements of what may be a running sum: a number, or one for each class. Activations have more."""


class Sums:
    """Tells ``on_add``: an addition of Python code whose result is a number in 16 bits, or a few."""

    def __init__(self, patches: Patches, tell: Tell) -> None:
        self.tell = tell
        # Not add and add_: optimizers call them for every weight, and to look at each would take too long.
        for name in ("__add__", "__radd__"):
            patches.override(Tensor, name, functools.partial(self._followed, in_place=False))
        patches.override(Tensor, "__iadd__", functools.partial(self._followed, in_place=True))

    def _followed(self, original: Callable[..., Any], *, in_place: bool) -> Callable[..., Any]:
        """Return the function in its place; an addition that is no sum in the making costs three comparisons."""

        def add(one: Tensor, other: Any) -> Any:
            # A subclass may have its own idea of what it means to be asked for its format.
            if type(one) is not Tensor or one.dtype not in HALF or one.numel() > MAX_ELEMENTS or _is_abstract(one):
                return original(one, other)
            before = one.detach().clone() if in_place else one
            result = original(one, other)
            if isinstance(result, Tensor) and result.dtype in HALF:
                self.tell("on_add", result, one, before, other)
            return result

        return add


def _is_abstract(value: Tensor) -> bool:
    """Tell whether a tensor stands for others, or for none: inside vmap, while something is traced, on meta."""
    is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor(value)  # noqa: SLF001 - has no public name
    return is_wrapped or torch._C._is_tracing() or value.is_meta  # noqa: SLF001 - what torch.jit.is_tracing asks


ROUTES = (Clips, Schedules, Sums)


def _scheduler_classes() -> list[type]:
    """Return every scheduler class that has a ``step`` of its own."""
    found = [lr_scheduler.LRScheduler]
    for cls in found:
        found += [sub for sub in cls.__subclasses__() if sub not in found]
    return [cls for cls in found if "step" in vars(cls)]
