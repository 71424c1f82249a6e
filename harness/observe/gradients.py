"""How large are the gradients, and how many of them are zero or not finite?"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer

from harness.observe.base import Observer, Stepped, dense, picked, trainable


@dataclass
class Presence:
    """In how many of its sampled steps a parameter had a gradient."""

    elements: int
    steps: int = 0
    times: int = 0
    used: int = 0
    """Steps in which the module that holds it ran in training."""


class Gradients(Observer):
    """Norm, zero share and non-finite share as they are when the optimizer takes its step.

    ``grad_norm``            norm over all parameters at the step (after unscale and clip)
    ``zero_grad_share``      exact zeros / elements, 0 to 1; judge it only as the excess over an fp32 twin
    ``missing_grad_share``   elements of trainable parameters without a gradient in every sampled step / all, 0 to 1
    ``partial_grad_share``   the same of parameters with a gradient in some of them, as experts that are chosen at times
    ``unreached_weight_share``  those of the missing ones whose module ran in training before each of these steps
    ``nonfinite_grad_share`` inf or NaN / elements at the attempt, taken or skipped
    ``grad_elements``        elements that a sample looks at, the most of any
    ``lost_backward_share``  sampled attempts in which a tenth and more of the gradients were inf or NaN right after the
                             backward pass, of optimizers that took a step before, where
                             products are in fp16, 0 to 1; None without any
    ``fp16_floor_share``     elements that fp16 holds with at most five bits, below 2**-19, / those that are not 0; as
                             many again have become 0. 1 where all have, in fp16; next to 0 where fp16 has no part in it
    """

    def __init__(self) -> None:
        self.pending: list[tuple[int, dict[str, tuple[Tensor, int]]]] = []
        self.history: list[dict[str, Any]] = []
        self.current: dict[str, tuple[Tensor, int]] = {}
        """Number -> its value on the device, and what to divide it by."""
        self.known = Stepped()
        """Optimizers that took a step."""
        self.presence: dict[int, Presence] = {}
        self.is_fp16 = False
        self.num_elements = 0
        self.used: WeakSet[nn.Module] = WeakSet()
        """Modules that ran in this attempt's training passes."""

    def on_forward(self, module: nn.Module, output: Any, grad_enabled: bool) -> None:
        """Note whose weights take part, and whether they are products in fp16."""
        if grad_enabled:
            self.used.add(module)
            self.is_fp16 = self.is_fp16 or (isinstance(output, Tensor) and output.dtype == torch.float16)

    def on_autocast(self, dtype: torch.dtype, grad_enabled: bool) -> None:
        """Note whether gradients come from fp16 products: the optimizer gets them in the weights' own format."""
        self.is_fp16 = self.is_fp16 or (dtype == torch.float16 and grad_enabled)

    def on_backward_end(self) -> None:
        """Look at what the backward pass left, before anybody can mend it."""
        found = [grad for optimizer in self.known.here() for grad in gradients(optimizer)] if self.is_fp16 else []
        if found:
            self._keep("lost_backward_share", count_nonfinite, picked(found))

    def on_scaler_step(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """Look at what may make the scaler skip."""
        found = gradients(optimizer)
        if found:
            self._keep("nonfinite_grad_share", count_nonfinite, picked(found))

    def on_optimizer_step(self, optimizer: Optimizer) -> None:
        """Look at what the optimizer is about to use."""
        found = gradients(optimizer)
        if not found:
            # LBFGS computes its first gradients inside the step.
            return
        self.known.add(optimizer)
        values = picked(found)
        self.current["grad_norm"] = (total_norm(found), 1)
        self._note_presence(optimizer)
        self._keep("nonzero_grad_share", torch.count_nonzero, values)
        self._keep("floor_grad_share", count_at_floor, values)
        self.num_elements = max(self.num_elements, values.numel())
        self.current["is_fp16"] = (torch.tensor(float(self.is_fp16 or values.dtype == torch.float16)), 1)
        if "nonfinite_grad_share" not in self.current:
            self._keep("nonfinite_grad_share", count_nonfinite, values)

    def on_attempt_end(self, step: int) -> None:
        """Keep the sample of this attempt."""
        if self.current:
            self.pending.append((step, self.current))
            self.current = {}
        self.used = WeakSet()

    def read(self) -> list[dict[str, Any]]:
        """Return the samples as numbers."""
        new = []
        for step, sample in self.pending:
            numbers = {name: float(value) / of for name, (value, of) in sample.items()}
            if "nonzero_grad_share" in numbers:
                is_fp16 = numbers.pop("is_fp16") > 0
                nonzero, at_floor = numbers.pop("nonzero_grad_share"), numbers.pop("floor_grad_share")
                numbers["zero_grad_share"] = 1 - nonzero
                if nonzero or is_fp16:
                    numbers["fp16_floor_share"] = at_floor / nonzero if nonzero else 1.0
            new.append({"step": step} | numbers)
        self.pending = []
        self.history += new
        return new

    def summary(self) -> dict[str, Any]:
        """Return medians and maxima over the samples."""
        self.read()
        return {
            "grad_norm_median": median(self.history, "grad_norm"),
            "zero_grad_share": median(self.history, "zero_grad_share"),
            "missing_grad_share": self._share(lambda p: p.times == 0),
            "unreached_weight_share": self._share(lambda p: p.times == 0 and p.used == p.steps),
            "partial_grad_share": self._share(lambda p: 0 < p.times < p.steps),
            "nonfinite_grad_share": largest(self.history, "nonfinite_grad_share"),
            "lost_backward_share": self._lost_backwards(),
            "grad_elements": self.num_elements or None,
            "fp16_floor_share": median(self.history, "fp16_floor_share"),
        }

    def _lost_backwards(self) -> float | None:
        shares = [sample["lost_backward_share"] for sample in self.history if "lost_backward_share" in sample]
        return sum(share >= LOST for share in shares) / len(shares) if shares else None

    def _keep(self, name: str, count: Callable[[Tensor], Tensor], values: Tensor) -> None:
        """Count on the device now; the share is computed when it is read."""
        self.current[name] = (count(values), values.numel())

    def _note_presence(self, optimizer: Optimizer) -> None:
        # Not when they ran: a functional call puts others in their place for that time.
        used = {id(p) for module in self.used for p in module._parameters.values()}  # noqa: SLF001 - the generators are slow
        for parameter in (p for group in optimizer.param_groups for p in group["params"] if p.requires_grad):
            known = self.presence.get(id(parameter))
            if known is None:
                known = self.presence[id(parameter)] = Presence(parameter.numel())
            known.steps += 1
            known.times += parameter.grad is not None
            known.used += id(parameter) in used

    def _share(self, condition: Callable[[Presence], bool]) -> float | None:
        total = sum(known.elements for known in self.presence.values())
        found = sum(known.elements for known in self.presence.values() if condition(known))
        return found / total if total else None


def gradients(optimizer: Optimizer) -> list[Tensor]:
    """Return the gradients of an optimizer's parameters; of sparse ones the values that are stored."""
    return [dense(p.grad) for p in trainable(optimizer) if p.grad is not None and p.grad.numel()]


def total_norm(grads: list[Tensor]) -> Tensor:
    """Return the 2-norm over all gradients; each tensor's norm is taken in its own format, as clipping does."""
    if not grads:
        return torch.zeros(())
    norms: Sequence[Tensor] = torch._foreach_norm(grads)  # noqa: SLF001 - what torch.nn.utils.clip_grad_norm_ uses itself
    if any(norm.dtype != torch.float32 or norm.device != norms[0].device for norm in norms):
        norms = [norm.float().to(norms[0].device) for norm in norms]
    total: Tensor = torch.linalg.vector_norm(torch.stack(list(norms)))
    return total


def count_nonfinite(values: Tensor) -> Tensor:
    """Return how many values are inf or NaN, which less themselves are not 0; a third of the time of ``isfinite``."""
    return torch.count_nonzero(values - values)


LOST = 0.1
"""Share of gradients that are not finite from which a backward pass is lost, and not a single sample."""

FLOOR = 2.0**-19
"""Below it fp16 has at most five of its eleven significant bits: its smallest number is 2**-24."""


def count_at_floor(values: Tensor) -> Tensor:
    """Return how many values are such as fp16 gives before it gives 0: exact in it, and below FLOOR."""
    size = values.abs()
    return torch.count_nonzero((size < FLOOR) & (size > 0) & (values.half() == values))


def median(history: list[dict[str, Any]], name: str, *, upper: bool = False) -> float | None:
    """Return the lower or upper median of a sampled number, NaN as the largest; None when it was never sampled."""
    values = sorted((sample[name] for sample in history if name in sample), key=lambda v: (math.isnan(v), v))
    return values[(len(values) - (not upper)) // 2] if values else None


def largest(history: list[dict[str, Any]], name: str) -> float | None:
    """Return the largest value of a sampled number, or None when it was never sampled."""
    return max((sample[name] for sample in history if name in sample), default=None)
