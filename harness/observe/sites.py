"""From which line of the training script does each event come?"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer

from harness.observe.base import Observer

HERE = Path(__file__).parent

NEVER_NAMED = (str(Path(torch.__file__).parent), str(HERE), str(HERE.parent / "faults"))
"""Torch, the observers, and injected faults."""

DECORATORS = str(Path(torch.__file__).parent / "utils" / "_contextlib.py")
"""Where ``@torch.no_grad()`` enters its region."""

PYTHON = (str(Path(os.__file__).parent), "<")
"""Python's own modules, and code without a file."""

INSTALLED = ("site-packages", "dist-packages")
"""Parts of a path that nobody wrote for this training: a trainer of somebody else's."""


def caller() -> str:
    """Return file:line of the nearest frame of the training script; without one, of the library that called."""
    library = ""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to read a line without a traceback
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(NEVER_NAMED):
            if any(part in name for part in INSTALLED):
                library = library or _place(frame)
            elif not name.startswith(PYTHON):
                return _place(frame)
        frame = frame.f_back
    return library or "unknown"


def entered_by_torch(frame: FrameType) -> bool:
    """Tell whether a region without gradients was entered by torch itself; ``frame`` is the one that enters it.

    A decorator of torch enters it for the function that it decorates.
    """
    code = frame.f_code
    kind = _entries.get(code)
    if kind is None:
        kind = "decorator" if code.co_filename == DECORATORS else str(code.co_filename.startswith(NEVER_NAMED[0]))
        _entries[code] = kind
    if kind != "decorator":
        return kind == "True"
    function = frame.f_locals.get("func")
    return str(getattr(function, "__module__", "")).partition(".")[0] == "torch"


_entries: dict[CodeType, str] = {}
"""Code that entered such a region -> whether it is torch's, or its decorator."""


def _place(frame: FrameType) -> str:
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


KINDS = ("backward_site", "unscale_site", "clip_site", "step_site", "schedule_site", "scaler_site")


class Sites(Observer):
    """The lines of the first call of each kind, as ``file:line``; empty where nothing of the kind was called.

    ``backward_site``, ``unscale_site``, ``clip_site``, ``step_site``, ``schedule_site``, ``scaler_site``
    """

    def __init__(self) -> None:
        self.sites: dict[str, str] = {}

    def on_backward(self, losses: list[Tensor]) -> None:
        """Note where the backward pass is started."""
        self._note("backward_site")

    def on_unscale(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """Note where the gradients are unscaled."""
        self._note("unscale_site")

    def on_clip(self, parameters: list[Tensor], limit: Any, norm: Tensor | None) -> None:
        """Note where they are clipped."""
        self._note("clip_site")

    def on_scaler_step(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """Note where the scaler takes the step."""
        self._note("scaler_site")

    def on_optimizer_step(self, optimizer: Optimizer) -> None:
        """Note where the optimizer does."""
        self._note("step_site")

    def on_schedule(self, scheduler: Any) -> None:
        """Note where the schedule advances; its first learning rate is set by a step of its own."""
        if not getattr(scheduler, "_is_initial", False):
            self._note("schedule_site")

    def summary(self) -> dict[str, Any]:
        """Return the lines."""
        return {name: self.sites.get(name, "") for name in KINDS}

    def _note(self, name: str) -> None:
        if name not in self.sites:
            self.sites[name] = caller()
