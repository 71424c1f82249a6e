"""Does the optimizer get the gradients that clipping left, or did something change them in between?"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from harness.observe.base import Observer, trainable
from harness.observe.gradients import gradients, median, total_norm


class Clipping(Observer):
    """The norm at the optimizer's step against the norm that clipping must have left.

    ``step_norm_ratio``  norm at the step / min(norm before the clip, threshold); 1 unless something scales the
                         gradients after they were clipped. Only attempts with one clip by norm of exactly the
                         optimizer's parameters count.
    """

    def __init__(self) -> None:
        self.clips: list[tuple[set[int], Any, Tensor | None]] = []
        self.current: Tensor | None = None
        self.pending: list[tuple[int, Tensor]] = []
        self.history: list[dict[str, Any]] = []

    def on_clip(self, parameters: list[Tensor], limit: Any, norm: Tensor | None) -> None:
        """Remember what was clipped."""
        self.clips.append(({id(p) for p in parameters if p.grad is not None}, limit, norm))

    def on_optimizer_step(self, optimizer: Optimizer) -> None:
        """Compare with what the optimizer is about to use."""
        if len(self.clips) != 1:
            return
        clipped, limit, norm = self.clips[0]
        if norm is None or clipped != {id(p) for p in trainable(optimizer)}:
            return
        left = torch.clamp(norm.detach().float(), max=limit)
        self.current = total_norm(gradients(optimizer)) / left

    def on_attempt_end(self, step: int) -> None:
        """Keep the sample of this attempt."""
        if self.current is not None:
            self.pending.append((step, self.current))
        self.clips, self.current = [], None

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
