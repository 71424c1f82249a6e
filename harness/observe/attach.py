"""How do observers reach a loop that knows nothing of them? Through torch's global hooks.

Optimizer steps and module forward passes have official global hooks. GradScaler, gradient clipping,
schedulers, autocast and the start of a backward pass have none: their functions are wrapped, and
restored on detach. A flag keeps the observers' own torch calls out; an observer that fails is dropped
with a note, and the training goes on.
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

FIRST_SAMPLES = (1, 10, 50)
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
        self._all, self._always = _listeners(self.observers), _listeners(self.observers, sampled=False)
        self._attached = True
        self._busy = False
        self._step_reported = False
        self._advancing = False
        self._norm_type: Any = None
        self._forward: Any = None
        self._undo: list[Callable[[], None]] = []
        self._attach()
        self._watch_forward(self.sampled)

    def samples(self, step: int) -> bool:
        """Tell whether the attempt ``step`` (from 1) is one of those looked at closely."""
        return step in FIRST_SAMPLES or step % self.interval == 0

    def read(self) -> list[dict[str, Any]]:
        """Return the new sample records of all observers."""
        return [record for observer in list(self.observers) for record in self._asked(observer.read) or []]

    def summary(self) -> dict[str, Any]:
        """Return all observations over the run; observers that failed are listed under ``observer_notes``."""
        merged: dict[str, Any] = {}
        for observer in list(self.observers):
            merged |= self._asked(observer.summary) or {}
        return merged | {"observer_notes": self.notes}

    def detach(self) -> None:
        """Leave torch as it was; another attachment on top of this one keeps working."""
        self._watch_forward(False)
        self._attached = False
        while self._undo:
            self._undo.pop()()

    def tell(self, event: str, *args: Any) -> None:
        """Pass an event to every observer that listens to it, unless an observer caused it."""
        if self._busy or not self._attached:
            return
        if not self.sampled:
            self._pass_on(self._always[event], args)
            return
        with torch.no_grad():
            self._pass_on(self._all[event], args)

    def _pass_on(self, listeners: list[Callable[..., None]], args: tuple[Any, ...]) -> None:
        self._busy = True
        for listener in listeners:
            try:
                listener(*args)
            except Exception as error:  # an observer must never end somebody's training
                self._drop(listener, error)
        self._busy = False

    def _asked(self, question: Callable[[], Any]) -> Any:
        """Ask an observer for its results; one that fails is dropped."""
        self._busy = True
        try:
            with torch.no_grad():
                return question()
        except Exception as error:  # as above
            self._drop(question, error)
        finally:
            self._busy = False

    def _drop(self, method: Any, error: Exception) -> None:
        observer = method.__self__
        self.notes.append(
            f"{type(observer).__name__} stepped aside in {method.__name__}: {type(error).__name__}: {error}"
        )
        self.observers = [other for other in self.observers if other is not observer]
        self._all, self._always = _listeners(self.observers), _listeners(self.observers, sampled=False)

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
        self._wrap(torch.autocast, "__enter__", after=self._after_autocast)
        self._wrap(torch.autograd, "backward", before=self._before_backward)
        for cls in _scheduler_classes():
            self._replace(cls, "step", self._scheduler_step)
        # The functions behind clip_grad_norm_: a script may have imported that name before anybody attached.
        for owner, get_norm, clip in (
            (torch.nn.utils.clip_grad, "_get_total_norm", "_clip_grads_with_norm_"),
            (torch.nn.utils, "get_total_norm", "clip_grads_with_norm_"),
        ):
            self._wrap(owner, get_norm, before=self._before_norm)
            self._replace(owner, clip, self._clip)
        for owner in (torch.nn.utils, torch.nn.utils.clip_grad):
            self._replace(owner, "clip_grad_value_", self._clip)

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
        if self._busy or not self._attached:
            return
        self.attempts += 1
        self.tell("on_attempt_end", self.attempts)
        self.sampled = self.samples(self.attempts + 1)
        self._watch_forward(self.sampled)

    def _after_mode(self, _result: Any, module: nn.Module, mode: bool = True) -> None:
        if not mode and not self._busy:
            self._watch_forward(True)

    def _after_autocast(self, _result: Any, region: torch.autocast) -> None:
        if region._enabled and region.fast_dtype is not None:  # noqa: SLF001 - there is no public name for it
            self.tell("on_autocast", region.fast_dtype, torch.is_grad_enabled())

    def _before_backward(self, tensors: Any, *_args: Any, **_kwargs: Any) -> None:
        # A checkpointed block starts a backward pass inside another one.
        if torch._C._current_graph_task_id() == -1:  # noqa: SLF001 - the only way to tell
            found = [tensors] if isinstance(tensors, Tensor) else list(tensors)
            self.tell("on_backward", [tensor for tensor in found if isinstance(tensor, Tensor)])

    def _before_norm(self, *args: Any, **kwargs: Any) -> None:
        self._norm_type = kwargs.get("norm_type", args[1] if len(args) > 1 else 2.0)

    def _scheduler_step(self, original: Callable[..., Any], scheduler: Any, *args: Any, **kwargs: Any) -> Any:
        """Advance; a schedule that is made of others, or that calls its base class, advances once."""
        if self._advancing:
            return original(scheduler, *args, **kwargs)
        self._advancing = True
        try:
            result = original(scheduler, *args, **kwargs)
        finally:
            self._advancing = False
        self.tell("on_schedule", scheduler)
        return result

    def _clip(self, original: Callable[..., Any], parameters: Any, *args: Any, **kwargs: Any) -> Any:
        """Clip, by a norm or by value, and tell the 2-norm before it where it is known."""
        # A generator can be read once only, and the observers need the parameters too.
        listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        limit, norm = (*args, None, None)[:2]
        norm = kwargs.get("total_norm", norm) if self._norm_type == 2 else None
        result = original(listed, *args, **kwargs)
        limit = kwargs.get("max_norm", kwargs.get("clip_value", limit))
        self.tell("on_clip", listed, limit, norm if isinstance(norm, Tensor) else None)
        self._norm_type = None
        return result

    def _watch_forward(self, wanted: bool) -> None:
        if wanted and self._forward is None and self._attached:
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
        """Call ``before`` with a function's arguments and ``after`` with its result and them."""

        def call(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if before is not None:
                self._guarded(before, *args, **kwargs)
            result = original(*args, **kwargs)
            if after is not None:
                self._guarded(after, result, *args, **kwargs)
            return result

        self._replace(owner, name, call)

    def _guarded(self, hook: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        try:
            hook(*args, **kwargs)
        except Exception as error:  # a call in a form that we do not know must not break somebody's training
            note = f"a call was not followed: {type(error).__name__}: {error}"
            self.notes += [] if note in self.notes else [note]

    def _replace(self, owner: Any, name: str, call: Callable[..., Any]) -> None:
        """Let ``call`` take a function's place; it gets the original first."""
        original = vars(owner).get(name)
        if original is None:
            return

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return call(original, *args, **kwargs)

        setattr(owner, name, wrapper)
        self._undo.append(functools.partial(_put_back, owner, name, wrapper))


LEFT = "_left_by_gpu_exam"


def _put_back(owner: Any, name: str, wrapper: Any) -> None:
    """Undo a replacement; under somebody else's it stays without effect, and goes when that one goes."""
    setattr(wrapper, LEFT, True)
    if vars(owner).get(name) is wrapper:
        original = wrapper.__wrapped__
        while getattr(original, LEFT, False):
            original = original.__wrapped__
        setattr(owner, name, original)


def _scheduler_classes() -> list[type]:
    """Return every scheduler class that has a ``step`` of its own."""
    found = [lr_scheduler.LRScheduler]
    for cls in found:
        found += [sub for sub in cls.__subclasses__() if sub not in found]
    return [cls for cls in found if "step" in vars(cls)]


def _listeners(observers: list[Observer], *, sampled: bool = True) -> dict[str, list[Callable[..., None]]]:
    """Return the methods to call for each event: those that an observer overrides, outside samples only some."""
    chosen = [observer for observer in observers if sampled or not observer.sampled_only]
    return {
        event: [getattr(o, event) for o in chosen if getattr(type(o), event) is not getattr(Observer, event)]
        for event in EVENTS
    }
