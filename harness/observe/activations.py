"""How close do activations come to the largest number of their format, and in which format is the model evaluated?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn

from harness.observe.base import Observer
from harness.observe.formats import HALF, Formats, ModuleFormats, Phase
from harness.observe.overflows import on_host

OUTSIDE = "code outside the modules"
"""The place of an overflow when all 16-bit outputs of modules are finite and the loss is not."""


@dataclass(frozen=True)
class Seen:
    """What one module gave in one forward pass."""

    module: ref[nn.Module]
    kind: str
    """The class of the module, which may be gone when it is asked for."""
    lowest: Tensor
    highest: Tensor
    dtype: torch.dtype


@dataclass
class Pass:
    """The 16-bit outputs of one training pass, from the first module to the loss."""

    step: int
    seen: list[Seen] = field(default_factory=list)
    loss: Tensor | None = None


class Activations(Observer):
    """Ranges and formats of the outputs of modules, in sampled steps and in evaluation.

    ``activation_range_used``    largest activation / largest number of its 16-bit format, in training; large
                                 negative numbers are left out, because masks are made of them; inf after an overflow
    ``overflow_module``          the first module whose 16-bit output was not finite in a pass whose loss was not
                                 finite either, or ``code outside the modules``, or empty
    ``infinite_module``          the first module whose 16-bit output held +inf or NaN in most of the sampled passes,
                                 although their losses were finite; or empty
    ``train_output_bits``        fewest mantissa bits among the outputs in training
    ``train_weight_bits``        the same among the weights
    ``eval_output_bits``, ``eval_weight_bits``  the same in evaluation, without modules that run beside the training
    ``coarser_eval_module``      a module whose output has fewer mantissa bits in evaluation than in training, or empty
    ``train_formats``            the formats of outputs, 16-bit weights and autocast regions in training
    """

    in_between = ("on_forward",)
    """An evaluation can come in any attempt."""

    def __init__(self, step: Callable[[], int], names: Callable[[nn.Module], str]) -> None:
        self.step, self.names = step, names
        self.current: Pass | None = None
        self.pending: list[Pass] = []
        self.last_loss: Tensor | None = None
        self.range_used: float | None = None
        self.overflow: tuple[str, int] | None = None
        self.passes = 0
        self.infinite: Counter[str] = Counter()
        """Module -> passes with a finite loss in which it was the first whose output was not."""
        self.of_module: WeakKeyDictionary[nn.Module, ModuleFormats] = WeakKeyDictionary()
        self.coarser = ""
        self.formats = Formats()
        self.regions: set[torch.dtype] = set()
        """Formats of autocast regions."""

    def on_forward(self, module: nn.Module, output: Any, grad_enabled: bool) -> None:
        """Note format and range of a module's output; of one that holds others only what it gives itself."""
        phase: Phase = "train" if grad_enabled else "eval"
        formats = self.of_module.get(module)
        if formats is None:
            # The public generators over a module's parts take longer than everything else here.
            formats = self.of_module[module] = self.formats.of(is_leaf=not module._modules)  # noqa: SLF001
        for value in tensors_in(output):
            formats.note_output(phase, value.dtype)
            if grad_enabled:
                self._note_range(module, value)
        for parameter in module._parameters.values():  # noqa: SLF001
            if parameter is not None:
                formats.note_weight(phase, parameter.dtype)
        if grad_enabled:
            formats.is_training = True
        else:
            formats.evaluated.add(self.step())
            self.coarser = self.coarser or (self.names(module) if formats.is_coarser_in_eval else "")

    def on_autocast(self, dtype: torch.dtype, grad_enabled: bool) -> None:
        """Note the format of an autocast region: what is computed in it need not be a module's output."""
        if grad_enabled:
            self.regions.add(dtype)

    def on_backward(self, losses: list[Tensor]) -> None:
        """Close the pass under way: its loss tells whether an output that is not finite did any harm."""
        if self.current is None and torch.float16 in self.regions:
            # No module ran: all of it is code outside the modules.
            self.current = Pass(self.step())
        if self.current is not None:
            self.last_loss = losses[0].detach() if losses else None
            self._close(self.last_loss)

    def on_attempt_end(self, step: int) -> None:
        """Close what was computed since: recomputed activations belong to the last loss."""
        self._close(self.last_loss)
        self.last_loss = None
        self.formats.end_attempt(step)

    def read(self) -> list[dict[str, Any]]:
        """Return the range used in each sampled training step."""
        passes, self.pending = self.pending, []
        numbers = iter(on_host([n for p in passes for s in p.seen for n in (s.lowest, s.highest)]))
        losses = iter(on_host([p.loss.sum() for p in passes if p.loss is not None]))
        by_step: dict[int, float] = {}
        for entry in passes:
            ranges = [(seen, next(numbers), next(numbers)) for seen in entry.seen]
            loss = next(losses) if entry.loss is not None else 0.0
            used = self._judged(entry.step, ranges, lost=not math.isfinite(loss))
            if ranges:
                by_step[entry.step] = max(by_step.get(entry.step, 0.0), used)
        self.range_used = max((self.range_used or 0.0, *by_step.values())) if by_step else self.range_used
        return [{"step": step, "activation_range_used": used} for step, used in by_step.items()]

    def summary(self) -> dict[str, Any]:
        """Return the largest range used, the first overflow and the formats."""
        self._close(self.last_loss)
        self.read()
        formats = self.regions | self.formats.in_training()
        name, step = self.overflow if self.overflow and not formats.isdisjoint(HALF) else ("", 0)
        return {
            "activation_range_used": self.range_used,
            "overflow_module": name,
            "overflow_step": step,
            "infinite_module": next((n for n, count in self.infinite.most_common(1) if 2 * count > self.passes), ""),
            "coarser_eval_module": self.coarser,
            "train_formats": ",".join(sorted(str(f).removeprefix("torch.") for f in formats)),
            **self.formats.bits(),
        }

    def _close(self, loss: Tensor | None) -> None:
        if self.current is not None:
            self.current.loss = loss
            self.pending.append(self.current)
            self.current = None

    def _judged(self, step: int, ranges: list[tuple[Seen, float, float]], *, lost: bool) -> float:
        """Return the share of the range that a pass used, and keep the first overflow that reached its loss."""
        if lost:
            # Masks are made of -inf: what is +inf or NaN comes first.
            above = [seen for seen, _, high in ranges if not high < math.inf]
            below = [seen for seen, low, _ in ranges if not low > -math.inf]
            place = next((self._name_of(seen) for seen in (*above, *below)), OUTSIDE)
            self.overflow = self.overflow or (place, step)
            return math.inf
        self.passes += bool(ranges)
        if above := [seen for seen, _, high in ranges if not high < math.inf]:
            self.infinite[self._name_of(above[0])] += 1
            return math.inf
        return max((high / torch.finfo(seen.dtype).max for seen, _, high in ranges if high >= 0), default=0.0)

    def _name_of(self, seen: Seen) -> str:
        module = seen.module()
        return self.names(module) if module is not None else seen.kind

    def _note_range(self, module: nn.Module, value: Tensor) -> None:
        self.current = self.current or Pass(self.step())
        if value.dtype in HALF and value.numel():
            lowest, highest = torch.aminmax(value.detach())
            self.current.seen.append(Seen(ref(module), type(module).__name__, lowest, highest, value.dtype))


def tensors_in(output: Any) -> Iterator[Tensor]:
    """Yield the floating-point tensors of a module's output: alone, or in nested tuples, lists and mappings."""
    if isinstance(output, Tensor):
        if output.is_floating_point():
            yield output
    elif isinstance(output, (tuple, list, Mapping)):
        for item in output.values() if isinstance(output, Mapping) else output:
            yield from tensors_in(item)
