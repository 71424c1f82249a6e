"""How do observers reach a loop that knows nothing of them? Through torch's global hooks.

Optimizer steps and module forward passes have official global hooks. GradScaler, gradient clipping,
schedulers, autocast and the start of a backward pass have none: their functions are wrapped, and
restored on detach. An event that no observer waits for costs one lookup. A flag keeps the observers' own
torch calls out; an observer that fails is dropped with a note, and the training goes on.
"""

from __future__ import annotations

import functools
import math
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.compiler import is_compiling
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from harness.observe.base import Observer
from harness.observe.calls import hooked
from harness.observe.events import joined, listeners_of
from harness.observe.formats import REGION_INTERVAL
from harness.observe.patches import Patches, Switch, unseen
from harness.observe.routes import ROUTES
from harness.observe.sites import entered_by_torch

FIRST_SAMPLES = (1, 10, 20, 50, 100)
"""Steps sampled at the start, where a run goes wrong or does not."""


class Attachment:
    """The observers of one process, attached from construction until ``detach``."""

    def __init__(self, observers: Iterable[Observer], interval: int, patience_s: float = math.inf) -> None:
        self.observers = list(observers)
        self.interval, self.patience_s = interval, patience_s
        self._looked = time.monotonic()
        self.attempts = 0
        self.sampled = self.samples(1)
        """Whether the attempt under way is looked at closely."""
        self._patches = Patches()
        self.notes = self._patches.notes
        self.has_trained = False
        """Whether a backward pass was started, or an optimizer took a step."""
        self.is_unused = False
        """Whether the gradients of the last backward pass have led to no attempt yet."""
        self._attached = True
        self._busy = False
        self._scaled = False
        self._unread = False
        self._step_reported = False
        self._evaluated = 0
        """Attempts before the last region without gradients that was looked into."""
        self._is_armed = False
        """Whether the next one is."""
        self._forward = Switch(
            lambda hook: hooked(hook, self.tell, follow=bool(self._all["on_called"])),
            lambda module, _args, output: self.tell("on_forward", module, output, torch.is_grad_enabled()),
        )
        self._before_step = Switch(
            register_optimizer_step_pre_hook,
            lambda optimizer, _args, _kwargs: self._before_optimizer(optimizer),
        )
        self._last_of_all: Any = None
        self._after_step = Switch(register_optimizer_step_post_hook, self._after_optimizer)
        self._listen()
        self._attach()
        self._look()

    def samples(self, step: int) -> bool:
        """Tell whether the attempt ``step`` (from 1) is one of those looked at closely.

        One is looked at whenever the last one is longer than ``patience_s`` seconds ago: some steps take minutes.
        """
        now = time.monotonic()
        if step not in FIRST_SAMPLES and step % self.interval and now - self._looked < self.patience_s:
            return False
        self._looked = now
        return True

    def read(self) -> list[dict[str, Any]]:
        """Return the new sample records of all observers, those of one step joined."""
        if not self._unread:
            return []
        self._unread = False
        return joined(record for records in self._asked("read") for record in records)

    def summary(self) -> dict[str, Any]:
        """Return all observations over the run and how many steps it had; ``observer_notes`` names what failed."""
        merged: dict[str, Any] = {}
        for numbers in self._asked("summary"):
            merged |= numbers
        taken = self.attempts - merged.get("skipped_steps", 0)
        return merged | {"attempted_steps": self.attempts, "optimizer_steps": taken, "observer_notes": self.notes}

    def detach(self) -> None:
        """Leave torch as it was; another attachment on top of this one keeps working."""
        self._attached = self.sampled = self._is_armed = False
        self._patches.listeners = listeners_of([], lambda _observer, _event: False)
        self._look()
        self._patches.undo()
        self._forget_hook()
        self._after_step.turn(on=False)

    def tell(self, event: str, *args: Any) -> None:
        """Pass an event to every observer that listens to it, unless an observer caused it."""
        listeners = self._patches.listeners[event]
        if not listeners or self._busy or self._is_tracing():
            return
        self._busy = True
        self._unread = self._unread or self.sampled or self._scaled
        try:
            if self.sampled:
                with torch.no_grad(), unseen():
                    self._pass_on(listeners, args)
            else:
                self._pass_on(listeners, args)
        finally:
            self._busy = False

    def _pass_on(self, listeners: list[Callable[..., None]], args: tuple[Any, ...]) -> None:
        for listener in listeners:
            try:
                listener(*args)
            except Exception as error:  # an observer must never end somebody's training
                self._drop(listener, error)

    def _asked(self, question: str) -> list[Any]:
        """Ask every observer that has an answer for it; one that fails is dropped."""
        answers = []
        self._busy = True
        with torch.no_grad():
            for observer in self.observers:
                if getattr(type(observer), question) is getattr(Observer, question):
                    continue
                method = getattr(observer, question)
                try:
                    answers.append(method())
                except Exception as error:  # as above
                    self._drop(method, error)
        self._busy = False
        return answers

    def _drop(self, method: Any, error: Exception) -> None:
        observer = method.__self__
        self.notes.append(
            f"{type(observer).__name__} stepped aside in {method.__name__}: {type(error).__name__}: {error}"
        )
        self.observers = [other for other in self.observers if other is not observer]
        self._listen()

    def _listen(self) -> None:
        """Note who waits for which event, in sampled attempts and in between."""
        self._all = listeners_of(self.observers, lambda _observer, _event: True)
        self._always = listeners_of(
            self.observers,
            lambda observer, event: event in observer.in_between or (self._scaled and event in observer.under_scaler),
        )
        self._patches.listeners = self._all if self.sampled else self._always

    def _attach(self) -> None:
        self._after_step.turn(on=True)
        wrap = self._patches.wrap
        # A scaler that is disabled passes every call through, and so do we.
        live = functools.partial(wrap, GradScaler, only=GradScaler.is_enabled)
        live("unscale_", before=lambda scaler, optimizer: self.tell("on_unscale", scaler, optimizer))
        live("step", before=self._before_scaler_step, after=self._after_scaler_step)
        live("update", after=lambda _r, scaler, *_a, **_k: self.tell("on_scaler_update", scaler))
        wrap(GradScaler, "load_state_dict", after=lambda _r, scaler, *_a, **_k: self.tell("on_scaler_restored", scaler))
        wrap(
            Optimizer,
            "load_state_dict",
            after=lambda _r, optimizer, *_a, **_k: self.tell("on_optimizer_restored", optimizer),
        )
        wrap(nn.Module, "train", after=self._after_mode)
        for owner, name in ((torch, "compile"), (nn.Module, "compile"), (torch.export, "export")):
            wrap(owner, name, before=self._before_compile)
        wrap(torch.autocast, "__enter__", after=self._after_autocast, event="on_autocast")
        wrap(
            torch.autograd,
            "backward",
            before=self._before_backward,
            after=lambda *_a, **_k: self.tell("on_backward_end"),
        )
        wrap(torch.autograd, "grad", before=self._before_grad)
        for region in (torch.no_grad, torch.inference_mode):
            self._patches.replace(region, "__enter__", self._enter_no_grad, only=lambda _region: self._is_armed)
        for cls in (Optimizer, nn.Module):
            self._patches.replace(cls, "zero_grad", self._zero_grad, event="on_zero_grad")
        for route in ROUTES:
            route(self._patches, self.tell)
        if not self._always["on_add"]:
            self._patches.withdraw()  # additions are too many to be looked at for nobody

    def _before_scaler_step(self, scaler: GradScaler, optimizer: Optimizer, *_args: Any, **_kwargs: Any) -> None:
        self._step_reported = False
        if not self._scaled:
            self._scaled = True
            self._listen()
        self.tell("on_scaler_step", scaler, optimizer)

    def _after_scaler_step(self, _result: Any, _scaler: GradScaler, *_args: Any, **_kwargs: Any) -> None:
        if not self._step_reported:
            self._end_attempt()

    def _before_optimizer(self, optimizer: Optimizer) -> None:
        """Tell of a step; after the optimizer's own hooks, which come later than those of all and may change it."""
        if not optimizer._optimizer_step_pre_hooks:  # noqa: SLF001 - there is no public way to ask
            self.tell("on_optimizer_step", optimizer)
            return
        self._forget_hook()
        self._last_of_all = optimizer.register_step_pre_hook(
            lambda optimizer, _args, _kwargs: self.tell("on_optimizer_step", optimizer)
        )

    def _forget_hook(self) -> None:
        if self._last_of_all is not None:
            self._last_of_all.remove()
            self._last_of_all = None

    def _after_optimizer(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        if self._is_tracing():
            return
        self._step_reported = True
        self._forget_hook()
        self.tell("on_optimizer_stepped", optimizer)
        self._end_attempt()

    def _end_attempt(self) -> None:
        if self._busy or not self._attached:
            return
        self.attempts += 1
        self.has_trained = True
        self.is_unused = False
        self._is_armed = self.attempts - self._evaluated >= REGION_INTERVAL
        self.tell("on_attempt_end", self.attempts)
        was_sampled, self.sampled = self.sampled, self.samples(self.attempts + 1)
        if self.sampled or was_sampled or self._forward.is_on:
            self._patches.listeners = self._all if self.sampled else self._always
            self._look()

    def _look(self) -> None:
        """Hook in where many calls come by only for an attempt that is looked at."""
        self._forward.turn(on=self.sampled and not self._patches.is_traced)
        self._before_step.turn(on=bool(self._patches.listeners["on_optimizer_step"]))

    def _is_tracing(self) -> bool:
        return self._patches.is_traced and is_compiling()

    def _before_compile(self, *_args: Any, **_kwargs: Any) -> None:
        """Leave forward passes alone from now on: a hook would be compiled into them, and again when it goes."""
        self._patches.is_traced = True
        self._patches.withdraw()
        self._look()

    def _after_mode(self, _result: Any, module: nn.Module, mode: bool = True) -> None:
        if not mode and not self._busy and self._attached and not self._patches.is_traced:
            self._forward.turn(on=True)

    def _enter_no_grad(self, original: Callable[..., Any], region: Any) -> Any:
        """Look at what may be an evaluation: a region without gradients that a script enters between two attempts."""
        if not (self._busy or self._patches.is_traced) and not entered_by_torch(sys._getframe(2)):  # noqa: SLF001 - see sites
            self._is_armed, self._evaluated = False, self.attempts
            self._forward.turn(on=True)
        return original(region)

    def _after_autocast(self, _result: Any, region: torch.autocast) -> None:
        if region._enabled and region.fast_dtype is not None:  # noqa: SLF001 - there is no public name for it
            self.tell("on_autocast", region.fast_dtype, torch.is_grad_enabled())

    def _zero_grad(self, original: Callable[..., Any], owner: Any, *args: Any, **kwargs: Any) -> Any:
        if self.is_unused:
            self.is_unused = False
            self.tell("on_zero_grad", owner)
        return original(owner, *args, **kwargs)

    def _before_grad(self, *_args: Any, **_kwargs: Any) -> None:
        self.has_trained = True

    def _before_backward(self, tensors: Any, *_args: Any, **_kwargs: Any) -> None:
        # A checkpointed block starts a backward pass inside another one.
        if torch._C._current_graph_task_id() == -1:  # noqa: SLF001 - the only way to tell
            self.has_trained = self.is_unused = True
            self._is_armed = False
            if isinstance(tensors, Tensor):
                self.tell("on_backward", [tensors])
            elif isinstance(tensors, (list, tuple)):  # a generator can be read once only
                self.tell("on_backward", [tensor for tensor in tensors if isinstance(tensor, Tensor)])
