# mypy: allow-untyped-calls
"""What an attachment touches in torch, an observer that notes every event, and steps that cause them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.amp import GradScaler
from torch.optim import Optimizer, lr_scheduler
from torch.optim import optimizer as optimizer_module

from harness.observe.base import Observer
from harness.observe.events import EVENTS
from tests.observe.loops import weight

MODULE = nn.modules.module


def patched() -> dict[str, Any]:
    """Return everything of torch that an attachment may touch."""
    clip, utils = torch.nn.utils.clip_grad, torch.nn.utils
    owners: list[tuple[Any, tuple[str, ...]]] = [
        (GradScaler, ("unscale_", "step", "update", "load_state_dict")),
        (nn.Module, ("train", "eval", "__call__", "compile", "zero_grad")),
        (clip, ("clip_grad_norm_", "clip_grad_value_", "_get_total_norm", "_clip_grads_with_norm_")),
        (utils, ("clip_grad_norm_", "clip_grad_value_", "get_total_norm", "clip_grads_with_norm_")),
        (torch.autograd, ("backward", "grad")),
        (torch.autocast, ("__enter__", "__exit__")),
        (torch.no_grad, ("__enter__",)),
        (torch.inference_mode, ("__enter__",)),
        (torch, ("compile",)),
        (torch.export, ("export",)),
        (torch.Tensor, ("__add__", "__radd__", "__iadd__")),
        (Optimizer, ("zero_grad", "load_state_dict")),
        (lr_scheduler.LRScheduler, ("step",)),
        (lr_scheduler.SequentialLR, ("step",)),
        (lr_scheduler.ReduceLROnPlateau, ("step",)),
    ]
    functions = {f"{owner.__name__}.{name}": vars(owner).get(name) for owner, names in owners for name in names}
    return functions | {
        "forward pre hooks": dict(MODULE._global_forward_pre_hooks),
        "forward hooks": dict(MODULE._global_forward_hooks),
        "pre hooks": dict(optimizer_module._global_optimizer_pre_hooks),
        "post hooks": dict(optimizer_module._global_optimizer_post_hooks),
    }


class Notes(Observer):
    """Notes every event."""

    in_between = EVENTS

    def __init__(self) -> None:
        self.events: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("on_"):
            return lambda *_: self.events.append(name)
        return super().__getattribute__(name)


def all_events() -> Notes:
    """Return an observer of a class that overrides every event, as the attachment asks the class."""
    events = {name: getattr(Observer, name) for name in vars(Observer) if name.startswith("on_")}
    wrapped = {name: lambda self, *args, _f=function: _f(self, *args) for name, function in events.items()}
    kind: type[Notes] = type("AllEvents", (Notes,), wrapped)
    return kind()


def weight_step() -> None:
    """Take one step of any optimizer."""
    torch.optim.SGD([weight(1)], lr=0.1).step()


def fp16_step(parameter: nn.Parameter, optimizer: Optimizer, scaler: GradScaler, schedule: Any) -> None:
    """Take one usual fp16 step."""
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.linear(torch.ones(1, 2), parameter.reshape(1, 2)).float().sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_([parameter], 1.0)
    scaler.step(optimizer)
    scaler.update()
    schedule.step()
