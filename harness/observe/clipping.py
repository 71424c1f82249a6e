"""Does the optimizer get the gradients that clipping left, or did something change them in between?"""

from __future__ import annotations

import math
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer

from harness.observe.base import Observer, Stepped, trainable
from harness.observe.gradients import gradients, median, total_norm
from harness.observe.overflows import on_host
from harness.observe.scaled_norms import is_scaled

SAME = 0.07
"""Octaves within which two norms are the same: 5 %, room for the rounding of fp16 and bf16 gradients."""

LEAST_SCALE = 4.0
"""Loss scale below which a division by it cannot be told from an average."""


class Clipping(Observer):
    """The norm at the optimizer's step against the norm that unscaling and clipping must have left.

    ``step_norm_ratio``      norm at the step / min(norm of the true gradients, threshold of the clip); 1 unless
                             something scales the gradients on the way. Under a live scaler the true norm is that after
                             the backward pass / the loss scale; otherwise that before the clip. Only attempts with at
                             most one clip by norm of exactly the optimizer's parameters count
    ``second_unscale_share`` sampled attempts whose norm at the step is 1 / loss scale of that, or of the true norm,
                             0 to 1; None without attempts under a known scaler with a scale of at least 4
    """

    def __init__(self) -> None:
        self.clips: list[tuple[set[int], Any, Tensor | None]] = []
        self.true_norms: dict[int, tuple[Tensor, Tensor]] = {}
        """Optimizer -> the norm of its gradients before they were unscaled / the loss scale, and that scale."""
        self.untouched: set[int] = set()
        """Optimizers for which it was measured right after the backward pass."""
        self.scalers: WeakKeyDictionary[Optimizer, GradScaler] = WeakKeyDictionary()
        self.stepped = Stepped()
        """Those that a scaler steps."""
        self.pending: list[tuple[int, str, Tensor]] = []
        """Step, name of a number, and the number on the device."""
        self.current: dict[str, Tensor] = {}
        self.history: list[dict[str, Any]] = []

    def on_backward_end(self) -> None:
        """Measure what it left, for the optimizers that a scaler is known to step."""
        for optimizer in self.stepped.here():
            self._measure(self.scalers[optimizer], optimizer)
            self.untouched.add(id(optimizer))

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
        self.stepped.add(optimizer)
        if id(optimizer) not in self.true_norms:
            self.clips = []
            self._measure(scaler, optimizer)

    def on_optimizer_step(self, optimizer: Optimizer) -> None:
        """Compare with what the optimizer is about to use."""
        left, scaled = self._left(optimizer), self.true_norms.get(id(optimizer))
        if left is None and scaled is None:
            return
        norm = total_norm(gradients(optimizer))
        if left is not None:
            self.current["step_norm_ratio"] = norm / left
        if scaled is not None and id(optimizer) in self.untouched:
            true_norm, scale = scaled
            candidates = torch.stack([true_norm, true_norm if left is None else left])
            octaves = torch.log2(norm * scale / candidates).abs().min()
            self.current["second_unscale"] = torch.where(scale < LEAST_SCALE, torch.nan, octaves)

    def _measure(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        scale, found = getattr(scaler, "_scale", None), gradients(optimizer)
        if isinstance(scale, Tensor) and found:
            # A copy: the scaler changes its scale in place.
            scale = scale.detach().to(found[0].device).reshape(()).clone()
            self.true_norms[id(optimizer)] = (total_norm(found) / scale, scale)

    def _left(self, optimizer: Optimizer) -> Tensor | None:
        """Return the norm that the step must find, or None where it is not known."""
        true_norm, _ = self.true_norms.get(id(optimizer), (None, None))
        if not self.clips:
            return true_norm
        clipped, limit, norm = self.clips[0]
        if len(self.clips) > 1 or norm is None or clipped != {id(p) for p in trainable(optimizer)}:
            return None
        return torch.clamp((norm.detach().float() if true_norm is None else true_norm), max=limit)

    def on_attempt_end(self, step: int) -> None:
        """Keep the sample of this attempt."""
        self.pending += [(step, name, value) for name, value in self.current.items()]
        self.clips, self.current, self.true_norms, self.untouched = [], {}, {}, set()

    def read(self) -> list[dict[str, Any]]:
        """Return the samples as numbers."""
        new = [{"step": step, name: float(value)} for step, name, value in self.pending]
        self.pending = []
        self.history += new
        return [sample for sample in new if "step_norm_ratio" in sample]

    def summary(self) -> dict[str, Any]:
        """Return the median of the ratios and the share of second divisions; None where nothing could be compared."""
        self.read()
        octaves = [sample["second_unscale"] for sample in self.history if "second_unscale" in sample]
        known = [value for value in octaves if not math.isnan(value)]
        share = sum(value <= SAME for value in known) / len(known) if known else None
        return {"step_norm_ratio": median(self.history, "step_norm_ratio"), "second_unscale_share": share}


MAX_PENDING = 1000
"""Clips kept on the device before they are counted: counting waits for it."""


class ClipOrder(Observer):
    """Which gradients did the clips see? Counted over every attempt under a live scaler.

    ``clips_before_unscale_share``  attempts in which a clip changed gradients still multiplied by the scale / attempts
                                    with a clip; one whose limit is not reached only measures the norm, and one whose
                                    limit is multiplied by the scale is right
    """

    in_between = ("on_unscale", "on_scaler_step")
    under_scaler = ("on_clip", "on_attempt_end")

    def __init__(self) -> None:
        self.clips = 0
        self.early_clips = 0
        self.pending: list[Tensor] = []
        """Whether a clip of scaled gradients changed them, one for each attempt; on the device."""
        self._early: list[tuple[Any, Tensor | bool]] = []
        """Limit of a clip, and whether its norm was beyond it."""
        self._live = self._unscaled = self._clipped = False

    def on_unscale(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """From here on the gradients of this attempt have their true size."""
        self._unscaled = True

    def on_clip(self, parameters: list[Tensor], limit: Any, norm: Tensor | None) -> None:
        """Remember whether the gradients still carried the scale."""
        self._clipped = True
        if not self._unscaled:
            is_beyond = True if norm is None or limit is None else (norm.detach() > limit).reshape(())
            self._early.append((limit, is_beyond))

    def on_scaler_step(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """The attempt is one under a live scale; clips to a limit that was multiplied by it are left out."""
        self._live = True
        scale = getattr(scaler, "_scale", None)
        if self._early and isinstance(scale, Tensor):
            self._early = [(limit, beyond) for limit, beyond in self._early if not _is_scaled(limit, scale)]

    def on_attempt_end(self, step: int) -> None:
        """Count."""
        self.clips += self._clipped
        if self._live and self._early:
            beyond = [early for _, early in self._early]
            if any(early is True for early in beyond):
                self.early_clips += 1
            else:
                self.pending.append(torch.stack([early for early in beyond if isinstance(early, Tensor)]).any())
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


def _is_scaled(limit: Any, scale: Tensor) -> bool:
    """Tell whether a limit was multiplied by the scale; waits for the device only where the limit is that large."""
    try:
        value = float(limit)
    except (TypeError, ValueError):
        return False
    return is_scaled(value, 0.0) and is_scaled(value, float(scale))
