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

FIRST_SAMPLES = (1, 2, 5, 10, 20, 50)
"""Steps sampled at the start, where a run goes wrong or does not."""


EVENTS = tuple(name for name in vars(Observer) if name.startswith("on_"))


class Attachment:
    """The observers of one process, attached from construction until ``detach``."""

    def __init__(self, observers: Iterable[Observer], interval: int) -> None:
        self.observers = list(observers)
        self.interval = interval
        self.attempts = 0
        self.sampled = self.samples(1)
        """Whether the attempt under way is looked at closely."""
        self.notes: list[str] = []
        self._all = {event: [o for o in self.observers if _overrides(o, event)] for event in EVENTS}
        self._always = {event: [o for o in found if not o.sampled_only] for event, found in self._all.items()}
        self._busy = False
        self._step_reported = False
        self._forward: Any = None
        self._undo: list[Callable[[], None]] = []
        self._attach()
        self._watch_forward(self.sampled)

    def samples(self, step: int) -> bool:
        """Tell whether the attempt ``step`` (from 1) is one of those looked at closely."""
        return step in FIRST_SAMPLES or step % self.interval == 0

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
        if not self.sampled:
            for observer in tuple(self._always[event]):
                self._guarded(observer, event, *args)
            return
        with torch.no_grad():
            for observer in tuple(self._all[event]):
                self._guarded(observer, event, *args)

    def _guarded(self, observer: Observer, event: str, *args: Any) -> Any:
        self._busy = True
        try:
            return getattr(observer, event)(*args)
        except Exception as error:  # an observer must never end somebody's training
            self._drop(observer)
            self.notes.append(f"{type(observer).__name__} stepped aside in {event}: {type(error).__name__}: {error}")
            return None
        finally:
            self._busy = False

    def _drop(self, observer: Observer) -> None:
        for group in (self.observers, *self._all.values(), *self._always.values()):
            if observer in group:
                group.remove(observer)

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
                self._wrap_clip(module, name)

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
        self.sampled = self.samples(self.attempts + 1)
        self._watch_forward(self.sampled)

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

    def _wrap_clip(self, owner: Any, name: str) -> None:
        original = vars(owner)[name]

        @functools.wraps(original)
        def wrapper(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            # A generator can be read once only, and the observers need the parameters too.
            listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
            result = original(listed, *args, **kwargs)
            limit = args[0] if args else kwargs.get("max_norm", kwargs.get("clip_value"))
            self.tell("on_clip", listed, limit, result if isinstance(result, Tensor) else None)
            return result

        setattr(owner, name, wrapper)
        self._undo.append(functools.partial(setattr, owner, name, original))


def _scheduler_classes() -> list[type]:
    """Return every scheduler class that has a ``step`` of its own."""
    found = [lr_scheduler.LRScheduler]
    for cls in found:
        found += [sub for sub in cls.__subclasses__() if sub not in found]
    return [cls for cls in found if "step" in vars(cls)]


def _overrides(observer: Observer, event: str) -> bool:
    """Tell whether an observer listens to an event: the others are not called for it."""
    return getattr(type(observer), event) is not getattr(Observer, event)
