"""How do observers reach a loop that knows nothing of them? Through torch's global hooks.

Optimizer steps and module forward passes have official global hooks. GradScaler, gradient clipping
and schedulers have none: their methods are wrapped, and restored on detach. A counter keeps the
observers' own torch calls out; an observer that fails is dropped with a note, and the training goes on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer, lr_scheduler
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from harness.observe.base import Observer, is_live

FIRST_SAMPLES = (1, 2, 4, 8)
"""Steps sampled at the start, where a run goes wrong or does not."""


class Attachment:
    """The observers of one process, attached from construction until ``detach``."""

    def __init__(self, observers: Iterable[Observer], interval: int) -> None:
        self.observers = list(observers)
        self.interval = interval
        self.attempts = 0
        self.notes: list[str] = []
        self._busy = False
        self._step_reported = False
        self._forward: Any = None
        self._undo: list[Callable[[], None]] = []
        self._attach()
        self._watch_forward(self.samples(1))

    def samples(self, step: int) -> bool:
        """Tell whether the attempt ``step`` (from 1) is one of those looked at closely."""
        return step in FIRST_SAMPLES or step % self.interval == 0

    @property
    def sampled(self) -> bool:
        """Whether the attempt under way is looked at closely."""
        return self.samples(self.attempts + 1)

    def read(self) -> list[dict[str, Any]]:
        """Return the new sample records of all observers."""
        return [record for observer in list(self.observers) for record in self._guarded(observer, "read") or []]

    def summary(self) -> dict[str, Any]:
        """Return all observations over the run; observers that failed are listed under ``observer_notes``."""
        merged: dict[str, Any] = {}
        for observer in list(self.observers):
            merged |= self._guarded(observer, "summary") or {}
        return merged | {"observer_notes": self.notes}

    def detach(self) -> None:
        """Leave torch as it was."""
        self._watch_forward(False)
        while self._undo:
            self._undo.pop()()

    def tell(self, event: str, *args: Any) -> None:
        """Pass an event to every observer, unless an observer caused it."""
        if self._busy:
            return
        for observer in list(self.observers):
            self._guarded(observer, event, *args)

    def _guarded(self, observer: Observer, event: str, *args: Any) -> Any:
        self._busy = True
        try:
            with torch.no_grad():
                return getattr(observer, event)(*args)
        except Exception as error:  # an observer must never end somebody's training
            self.observers.remove(observer)
            self.notes.append(f"{type(observer).__name__} stepped aside in {event}: {type(error).__name__}: {error}")
            return None
        finally:
            self._busy = False

    def _attach(self) -> None:
        pre = register_optimizer_step_pre_hook(lambda optimizer, _a, _k: self.tell("on_optimizer_step", optimizer))
        post = register_optimizer_step_post_hook(self._after_optimizer)
        self._undo += [pre.remove, post.remove]
        self._wrap(
            GradScaler, "unscale_", before=lambda scaler, optimizer: self._if_live("on_unscale", scaler, optimizer)
        )
        self._wrap(GradScaler, "step", before=self._before_scaler_step, after=self._after_scaler_step)
        self._wrap(GradScaler, "update", after=lambda _r, scaler, *_a, **_k: self._if_live("on_scaler_update", scaler))
        self._wrap(
            GradScaler, "load_state_dict", after=lambda _r, scaler, *_a, **_k: self.tell("on_scaler_restored", scaler)
        )
        self._wrap(nn.Module, "train", after=self._after_mode)
        for cls in _scheduler_classes():
            self._wrap(cls, "step", after=lambda _r, scheduler, *_a, **_k: self.tell("on_schedule", scheduler))
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            for module in (torch.nn.utils, torch.nn.utils.clip_grad):
                self._wrap(module, name, after=self._after_clip)

    def _if_live(self, event: str, scaler: GradScaler, *args: Any) -> None:
        if is_live(scaler):
            self.tell(event, scaler, *args)

    def _before_scaler_step(self, scaler: GradScaler, optimizer: Optimizer, *_args: Any, **_kwargs: Any) -> None:
        self._step_reported = False
        self._if_live("on_scaler_step", scaler, optimizer)

    def _after_scaler_step(self, _result: Any, scaler: GradScaler, *_args: Any, **_kwargs: Any) -> None:
        if is_live(scaler) and not self._step_reported:
            self._end_attempt()

    def _after_optimizer(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        self._step_reported = True
        self.tell("on_optimizer_stepped", optimizer)
        self._end_attempt()

    def _end_attempt(self) -> None:
        self.attempts += 1
        self.tell("on_attempt_end", self.attempts)
        self._watch_forward(self.sampled)

    def _after_clip(self, result: Any, parameters: Any, max_norm: Any = 0.0, *_args: Any, **_kwargs: Any) -> None:
        clipped = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        self.tell("on_clip", clipped, float(max_norm), result if isinstance(result, Tensor) else None)

    def _after_mode(self, _result: Any, module: nn.Module, mode: bool = True) -> None:
        if not mode and not self._busy:
            self._watch_forward(True)

    def _watch_forward(self, wanted: bool) -> None:
        if wanted and self._forward is None:
            self._forward = nn.modules.module.register_module_forward_hook(
                lambda module, _args, output: self.tell("on_forward", module, output, torch.is_grad_enabled())
            )
        elif not wanted and self._forward is not None:
            self._forward.remove()
            self._forward = None

    def _wrap(
        self,
        owner: Any,
        name: str,
        before: Callable[..., None] | None = None,
        after: Callable[..., None] | None = None,
    ) -> None:
        original = vars(owner).get(name)
        if original is None:
            return

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if before is not None:
                before(*args, **kwargs)
            result = original(*args, **kwargs)
            if after is not None:
                after(result, *args, **kwargs)
            return result

        setattr(owner, name, wrapper)
        self._undo.append(functools.partial(setattr, owner, name, original))


def _scheduler_classes() -> list[type]:
    """Return every scheduler class that has a ``step`` of its own."""
    found = [lr_scheduler.LRScheduler]
    for cls in found:
        found += [sub for sub in cls.__subclasses__() if sub not in found]
    return [cls for cls in found if "step" in vars(cls)]
