"""What can an observer see? Hooks that all do nothing; an observer overrides those that it needs.

Observers attach to torch itself, so they see any training loop. They must not change a number, and
must not wait for the device in a step: what they gather stays a tensor until ``read``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import get_ident
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer

ELEMENTS = 16384
"""Elements looked at in one sample, evenly spaced over all tensors: a share of 0.30 is then known to +-0.007 (2 sigma,
binomial), and always on the same elements, so that two runs can be compared."""


class Observer:
    """Base of the observers; one concern each."""

    in_between: tuple[str, ...] = ()
    """The events that it follows in every attempt; all others only in sampled ones, and cost nothing in between."""

    under_scaler: tuple[str, ...] = ()
    """What it follows in every attempt besides, once a live scaler was seen."""

    def on_forward(self, module: nn.Module, output: Any, grad_enabled: bool) -> None:
        """Follow a module's forward pass; called in sampled steps and in evaluation only.

        Training is what runs with gradients enabled: frozen layers are in eval mode while they train.
        """

    def on_call(self, module: nn.Module, grad_enabled: bool) -> None:
        """Precede a module's forward pass; called when ``on_forward`` is, or would be but for an exception."""

    def on_called(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """Follow a module's forward pass; the output is None after an exception."""

    def on_autocast(self, dtype: torch.dtype, grad_enabled: bool) -> None:
        """Follow the entry into an autocast region that is enabled."""

    def on_backward(self, losses: list[Tensor]) -> None:
        """Precede a backward pass that begins at ``losses``."""

    def on_backward_end(self) -> None:
        """Follow a backward pass; called in sampled attempts."""

    def on_unscale(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """Follow an explicit ``scaler.unscale_(optimizer)``, before it happens."""

    def on_clip(self, parameters: list[Tensor], limit: Any, norm: Tensor | None) -> None:
        """Follow a gradient clipping to ``limit``; ``norm`` is the total 2-norm before it, where it is known."""

    def on_scaler_step(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """Precede ``scaler.step(optimizer)``."""

    def on_scaler_update(self, scaler: GradScaler) -> None:
        """Follow ``scaler.update()``."""

    def on_scaler_restored(self, scaler: GradScaler) -> None:
        """Follow ``scaler.load_state_dict(...)``."""

    def on_optimizer_restored(self, optimizer: Optimizer) -> None:
        """Follow ``optimizer.load_state_dict(...)``."""

    def on_optimizer_step(self, optimizer: Optimizer) -> None:
        """Precede a step that the optimizer takes."""

    def on_optimizer_stepped(self, optimizer: Optimizer) -> None:
        """Follow a step that the optimizer took; ``doubt`` tells whether a fused one skipped it inside."""

    def on_schedule(self, scheduler: Any) -> None:
        """Follow ``scheduler.step()``."""

    def on_add(self, result: Tensor, one: Tensor, before: Tensor, other: Any) -> None:
        """Follow ``one + other`` of few 16-bit numbers; in place ``result`` is ``one``, and ``before`` what it was."""

    def on_zero_grad(self, owner: Optimizer | nn.Module) -> None:
        """Precede ``zero_grad()`` of an optimizer or a module, where no attempt followed the last backward pass."""

    def on_attempt_end(self, step: int) -> None:
        """Follow one attempted update, taken or skipped; ``step`` counts attempts from 1."""

    def read(self) -> list[dict[str, Any]]:
        """Return the sample records gathered since the last call: dicts with ``step``; may wait for the device."""
        return []

    def summary(self) -> dict[str, Any]:
        """Return the observations over the whole run: name -> number or text; may wait for the device."""
        return {}


class Stepped:
    """Optimizers, with the thread that steps each of them.

    Autograd writes gradients without Python's lock: to read those of a backward pass in another thread may crash.
    """

    def __init__(self) -> None:
        self.threads: WeakKeyDictionary[Optimizer, int] = WeakKeyDictionary()

    def add(self, optimizer: Optimizer) -> None:
        """Note that this thread steps an optimizer."""
        self.threads[optimizer] = get_ident()

    def here(self) -> list[Optimizer]:
        """Return the optimizers that this thread steps."""
        thread = get_ident()
        return [optimizer for optimizer, owner in list(self.threads.items()) if owner == thread]


def trainable(optimizer: Optimizer) -> Iterable[Tensor]:
    """Yield the parameters of an optimizer that have a gradient."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                yield parameter


def doubt(optimizer: Optimizer) -> Tensor | None:
    """Return a number on the device that is not 0 when the step under way changes nothing.

    Fused optimizers are called in any case and skip the step inside their kernel.
    """
    found = getattr(optimizer, "found_inf", None)
    return found.detach() if isinstance(found, Tensor) else None


def dense(grad: Tensor) -> Tensor:
    """Return the values of a gradient; of a sparse one those that are stored, of a sharded one those of this rank."""
    if grad.is_sparse:
        return grad.detach().coalesce().values()
    return local(grad.detach())


def local(tensor: Tensor) -> Tensor:
    """Return a tensor itself, or of one that is sharded over ranks (a DTensor) the part of this rank."""
    to_local = getattr(tensor, "to_local", None)
    return to_local() if to_local is not None else tensor


def picked(tensors: Sequence[Tensor]) -> Tensor:
    """Return at most about ELEMENTS elements of all tensors as one vector, a copy: one concatenation, few kernels."""
    if not tensors:
        return torch.zeros(0)
    tensors = [local(tensor) for tensor in tensors]
    stride = max(1, sum(tensor.numel() for tensor in tensors) // ELEMENTS)
    device = tensors[0].device
    # A call that does nothing costs as much here as one that does something: a sample is made of many small ones.
    picks = [_every(stride, tensor) for tensor in tensors]
    return torch.cat([pick if pick.device == device else pick.to(device) for pick in picks]).detach()


def _every(stride: int, tensor: Tensor) -> Tensor:
    """Return every ``stride``-th element of a tensor."""
    if tensor.is_contiguous():
        return tensor.as_strided(((tensor.numel() + stride - 1) // stride,), (stride,))
    return tensor.reshape(-1)[::stride]
