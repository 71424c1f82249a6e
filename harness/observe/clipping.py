"""Does the optimizer get the gradients that clipping left, or did something change them in between?"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer

from harness.observe.base import Observer, trainable
from harness.observe.gradients import gradients, median, total_norm
from harness.observe.overflows import on_host


class Clipping(Observer):
    """The norm at the optimizer's step against the norm that unscaling and clipping must have left.

    ``step_norm_ratio``  norm at the step / min(norm of the true gradients, threshold of the clip); 1 unless something
                         scales the gradients on the way. Under a live scaler the true norm is that after the backward
                         pass / the loss scale; otherwise that before the clip. Only attempts with at most one clip by
                         norm of exactly the optimizer's parameters count.
    """

    def __init__(self) -> None:
        self.clips: list[tuple[set[int], Any, Tensor | None]] = []
        self.true_norms: dict[int, Tensor] = {}
        """Optimizer -> the norm of its gradients before they were unscaled / the loss scale."""
        self.scalers: WeakKeyDictionary[Optimizer, GradScaler] = WeakKeyDictionary()
        self.current: Tensor | None = None
        self.pending: list[tuple[int, Tensor]] = []
        self.history: list[dict[str, Any]] = []

    def on_backward_end(self) -> None:
        """Measure what it left, for the optimizers that a scaler is known to step."""
        for optimizer, scaler in list(self.scalers.items()):
            self._measure(scaler, optimizer)

    def on_unscale(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """Measure it here for an optimizer that is new."""
        if id(optimizer) not in self.true_norms:
            self._measure(scaler, optimizer)

    def on_clip(self, parameters: list[Tensor], limit: Any, norm: Tensor | None) -> None:
        """Remember what was clipped."""
        self.clips.append(({id(p) for p in parameters if p.grad is not None}, limit, norm))

    def on_scaler_step(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """Measure it here at the latest; a clip of scaled gradients has another norm, and is left out."""
        self.scalers[optimizer] = scaler
        if id(optimizer) not in self.true_norms:
            self.clips = []
            self._measure(scaler, optimizer)

    def on_optimizer_step(self, optimizer: Optimizer) -> None:
        """Compare with what the optimizer is about to use."""
        left = self._left(optimizer)
        if left is not None:
            self.current = total_norm(gradients(optimizer)) / left

    def _measure(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        scale, found = getattr(scaler, "_scale", None), gradients(optimizer)
        if isinstance(scale, Tensor) and found:
            self.true_norms[id(optimizer)] = total_norm(found) / scale.detach().to(found[0].device)

    def _left(self, optimizer: Optimizer) -> Tensor | None:
        """Return the norm that the step must find, or None where it is not known."""
        true_norm = self.true_norms.get(id(optimizer))
        if not self.clips:
            return true_norm
        clipped, limit, norm = self.clips[0]
        if len(self.clips) > 1 or norm is None or clipped != {id(p) for p in trainable(optimizer)}:
            return None
        return torch.clamp((norm.detach().float() if true_norm is None else true_norm), max=limit)

    def on_attempt_end(self, step: int) -> None:
        """Keep the sample of this attempt."""
        if self.current is not None:
            self.pending.append((step, self.current))
        self.clips, self.current, self.true_norms = [], None, {}

    def read(self) -> list[dict[str, Any]]:
        """Return the samples as numbers."""
        new = [{"step": step, "step_norm_ratio": float(value)} for step, value in self.pending]
        self.pending = []
        self.history += new
        return new

    def summary(self) -> dict[str, Any]:
        """Return the median over the samples; None when no clip could be followed."""
        self.read()
        return {"step_norm_ratio": median(self.history, "step_norm_ratio")}


MAX_PENDING = 1000
"""Clips kept on the device before they are counted: counting waits for it."""


class ClipOrder(Observer):
    """Which gradients did the clips see? Counted over every attempt under a live scaler.

    ``clips_before_unscale_share``  attempts in which a clip changed gradients still multiplied by the scale / attempts
                                    with a clip; one whose limit is not reached only measures the norm
    """

    in_between = ("on_unscale", "on_scaler_step")
    under_scaler = ("on_clip", "on_attempt_end")

    def __init__(self) -> None:
        self.clips = 0
        self.early_clips = 0
        self.pending: list[Tensor] = []
        """Whether a clip of scaled gradients changed them, one for each attempt; on the device."""
        self._early: list[Tensor | bool] = []
        self._live = self._unscaled = self._clipped = False

    def on_unscale(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """From here on the gradients of this attempt have their true size."""
        self._unscaled = True

    def on_clip(self, parameters: list[Tensor], limit: Any, norm: Tensor | None) -> None:
        """Remember whether the gradients still carried the scale."""
        self._clipped = True
        if not self._unscaled:
            self._early.append(True if norm is None or limit is None else (norm.detach() > limit).reshape(()))

    def on_scaler_step(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """The attempt is one under a live scale."""
        self._live = True

    def on_attempt_end(self, step: int) -> None:
        """Count."""
        self.clips += self._clipped
        if self._live and self._early:
            if any(early is True for early in self._early):
                self.early_clips += 1
            else:
                self.pending.append(torch.stack([early for early in self._early if isinstance(early, Tensor)]).any())
        self._early = []
        self._live = self._unscaled = self._clipped = False
        if len(self.pending) >= MAX_PENDING:
            self._settle()

    def summary(self) -> dict[str, Any]:
        """Return the share; 0 without a clip."""
        self._settle()
        return {"clips_before_unscale_share": self.early_clips / self.clips if self.clips else 0.0}

    def _settle(self) -> None:
        self.early_clips += sum(flag > 0 for flag in on_host(self.pending))
        self.pending = []
