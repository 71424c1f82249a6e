"""How close do activations come to the largest number of their format, and in which format is the model evaluated?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from harness.observe.base import Observer
from harness.observe.updates import HALF

MANTISSA_BITS = {torch.float64: 52, torch.float32: 23, torch.float16: 10, torch.bfloat16: 7}
"""Explicit mantissa bits (IEEE 754; bfloat16: Google's definition)."""


BITS = ("train_output_bits", "train_weight_bits", "eval_output_bits", "eval_weight_bits")


@dataclass
class Seen:
    """What one module gave in one step."""

    step: int
    module: nn.Module
    training: bool
    peak: Tensor
    dtype: torch.dtype


class Activations(Observer):
    """Ranges and formats of the outputs of modules without children, in sampled steps and in evaluation.

    ``activation_range_used``    largest |activation| / largest number of its 16-bit format, in training
    ``overflow_module``          the first module whose 16-bit output was not finite in training, or empty
    ``train_output_bits``        fewest mantissa bits among the outputs in training
    ``train_weight_bits``        the same among the weights
    ``eval_output_bits``, ``eval_weight_bits``  the same in evaluation
    ``train_formats``            the formats of the outputs in training
    """

    def __init__(self, step: Callable[[], int], names: Callable[[nn.Module], str]) -> None:
        self.step, self.names = step, names
        self.pending: list[Seen] = []
        self.history: list[dict[str, Any]] = []
        self.range_used: float | None = None
        self.overflow: tuple[str, int] | None = None
        self.bits: dict[str, int] = {}
        self.formats: set[torch.dtype] = set()

    def on_forward(self, module: nn.Module, output: Any, grad_enabled: bool) -> None:
        """Note format and size of a leaf module's output."""
        if (
            not isinstance(output, Tensor)
            or not output.is_floating_point()
            or next(module.children(), None) is not None
        ):
            return
        self._note_bits(module, output, grad_enabled)
        if output.dtype in HALF and output.numel():
            peak = torch.linalg.vector_norm(output.detach(), float("inf"))
            self.pending.append(Seen(self.step(), module, grad_enabled, peak, output.dtype))

    def read(self) -> list[dict[str, Any]]:
        """Return the range used in each sampled training step."""
        if not self.pending:
            return []
        seen, self.pending = self.pending, []
        by_step: dict[int, float] = {}
        for entry, peak in zip(seen, torch.stack([s.peak.float() for s in seen]).tolist(), strict=True):
            if entry.training:
                used = self._used(entry, peak)
                by_step[entry.step] = max(by_step.get(entry.step, 0.0), used)
        new = [{"step": step, "activation_range_used": used} for step, used in by_step.items()]
        self.history += new
        return new

    def summary(self) -> dict[str, Any]:
        """Return the largest range used, the first overflow and the formats."""
        self.read()
        name, step = self.overflow or ("", 0)
        return {
            "activation_range_used": self.range_used,
            "overflow_module": name,
            "overflow_step": step,
            "train_formats": ",".join(sorted(str(f).removeprefix("torch.") for f in self.formats)),
            **{name: self.bits.get(name) for name in BITS},
        }

    def _used(self, entry: Seen, peak: float) -> float:
        used = peak / torch.finfo(entry.dtype).max
        if not used < float("inf"):
            self.overflow = self.overflow or (self.names(entry.module), entry.step)
            used = float("inf")
        self.range_used = max(self.range_used or 0.0, used)
        return used

    def _note_bits(self, module: nn.Module, output: Tensor, training: bool) -> None:
        if training:
            self.formats.add(output.dtype)
        phase = "train" if training else "eval"
        self._lower(f"{phase}_output_bits", output.dtype)
        for parameter in module.parameters(recurse=False):
            self._lower(f"{phase}_weight_bits", parameter.dtype)

    def _lower(self, name: str, dtype: torch.dtype) -> None:
        bits = MANTISSA_BITS.get(dtype)
        if bits is not None:
            self.bits[name] = min(bits, self.bits.get(name, bits))
