"""How far are the outputs of an evaluation in a coarser format from those of the trained weights in fp32?

Where an evaluation runs in a coarser format than the training, a copy of the module is called once more with the same
inputs, in fp32. That costs a forward pass and a copy of the weights, so it is only done when all observers are asked
for, and for few batches.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from statistics import median
from threading import get_ident
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from harness.observe.activations import tensors_in
from harness.observe.base import Observer
from harness.observe.casts import Casts
from harness.observe.formats import MANTISSA_BITS, ModuleFormats, fewest_bits
from harness.observe.gaps import output_gap
from harness.observe.reruns import Call, Strayed, cloned, tensors_of, without_autocast
from harness.observe.trained import Pairing, Trained

BATCHES = 8
"""Batches repeated of one evaluation, the first ones."""

TOTAL = 128
"""Batches repeated in a run. They are counted, not timed: all ranks then decide alike."""

LATEST = 32
"""Batches that count, the latest ones: what a network gives before it has learned anything is nearly the same for all
samples."""

DOUBT = 0.02
"""Gap from which it is made sure that the call gives the same again, and asked what training's own autocast gives."""

SAME = 0.25
"""Share of the gap by which a plain repetition may differ."""

WRAPPERS = (DataParallel, DistributedDataParallel)
"""What they hold is called instead: they talk to other ranks and devices."""


@dataclass(eq=False)
class Evaluated:
    """A module that was called without gradients, or trained."""

    formats: ModuleFormats
    step: int = 0
    evaluations: int = 0
    """Evaluations in a coarser format, one in an attempt."""
    batches: int = 0
    """Batches repeated of the latest of them."""
    rounded: tuple[int, bool] = (0, False)
    """The attempt in which its weights were looked at, and whether they lie on a coarser grid than the trained ones."""


@dataclass(frozen=True)
class Measured:
    """One batch that was repeated."""

    gap: float
    evaluated: Evaluated
    bits: int | None
    """Fewest mantissa bits in it where no trained module is known to compare with, otherwise None."""


class Evaluations(Observer):
    """What the format of an evaluation does to its outputs.

    ``eval_output_gap``  ||coarse - fp32|| / ||fp32 - its mean over the samples||, the median over batches of
                         evaluations in a coarser format than the training; None when there was none. What the autocast
                         of the training does to the same batch is taken off. Its square is the share of variance lost.

    The weights are the trained ones of which those in use are a rounding, where they are known, otherwise those in
    use. Inputs are what they were before a cast, where nothing lies between it and the call; others that were rounded
    cannot be un-rounded. A cast or an autocast region inside ``forward`` stays as it is, and fp32 may be TF32 where the
    user allows it: the gap is at least as large as told. Not judged: modules that run beside the training, such as
    teachers; calls with arguments other than numbers, texts and tensors in tuples, lists and dicts; calls that do not
    give the same again, because of dropout or what they remember.
    """

    in_between = ("on_call", "on_called")
    """An evaluation can come in any attempt."""

    def __init__(self, step: Callable[[], int], casts: Casts) -> None:
        self.step, self.casts = step, casts
        self.trained = Trained()
        self.stacks: dict[int, list[tuple[nn.Module, bool]]] = defaultdict(list)
        """For each thread the modules that are running, and whether with gradients."""
        self.bits: dict[int, dict[int, int]] = defaultdict(dict)
        """For each thread the mantissa bits of the outputs of modules without children, by the module's id."""
        self.of_module: WeakKeyDictionary[nn.Module, Evaluated] = WeakKeyDictionary()
        self.sampled: list[int] = []
        self.total = 0
        self.measured: deque[Measured] = deque(maxlen=LATEST)

    def on_call(self, module: nn.Module, grad_enabled: bool) -> None:
        """Note that a module begins."""
        if not isinstance(module, WRAPPERS):
            self.stacks[get_ident()].append((module, grad_enabled))

    def on_called(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """Note the format of what a module gave; repeat it when it is the outermost one, and coarser than training."""
        stack, bits = self.stacks[get_ident()], self.bits[get_ident()]
        if all(running is not module for running, _ in stack):
            # It began before anybody looked.
            return
        is_training = stack[0][1]
        while stack.pop()[0] is not module:
            pass
        fewest = fewest_bits({value.dtype for value in tensors_in(output)})
        if fewest and not module._modules:  # noqa: SLF001 - the public generator takes longer
            if is_training:
                self.trained.note_output(module, fewest)
            else:
                bits[id(module)] = min(fewest, bits.get(id(module), fewest))
        if stack:
            return
        called = dict(bits)
        bits.clear()
        if is_training:
            self.trained.note_root(module)
            self._of(module).formats.note_weight("train", torch.float32)
        elif output is not None:
            self._evaluated(Call(module, args, kwargs), output, called)

    def on_attempt_end(self, step: int) -> None:
        """Forget calls that never came back."""
        self.sampled.append(step)
        self.stacks.clear()
        self.bits.clear()

    def summary(self) -> dict[str, Any]:
        """Return the median gap of the latest batches."""
        gaps = [measured.gap for measured in self.measured if self._counts(measured)]
        return {"eval_output_gap": median(gaps) if gaps else None}

    def _counts(self, measured: Measured) -> bool:
        is_coarser = measured.bits is None or measured.bits < (self.trained.fewest or 0)
        return is_coarser and not measured.evaluated.formats.is_companion(self.sampled)

    def _of(self, module: nn.Module) -> Evaluated:
        known = self.of_module.get(module)
        if known is None:
            known = self.of_module[module] = Evaluated(ModuleFormats(is_leaf=False))
        return known

    def _evaluated(self, call: Call, output: Any, bits: dict[int, int]) -> None:
        """Look at an evaluation, and repeat it when there is reason to."""
        evaluated, step = self._of(call.module), self.step()
        evaluated.formats.evaluated.add(step)
        if self.trained.fewest is None or self.total >= TOTAL or next(call.module.parameters(), None) is None:
            return
        pairing = Pairing(call.module, self.trained)
        if not self._is_coarser(pairing, evaluated, call.module, bits) or not _is_due(evaluated, step):
            return
        self.total += 1
        try:
            gap = self._gap(call, list(tensors_in(output)), pairing)
        except Strayed:
            return
        if gap is not None:
            fewest = min((*bits.values(), *_weight_bits(call.module)), default=None)
            self.measured.append(Measured(gap, evaluated, None if pairing.twin else fewest))

    def _is_coarser(self, pairing: Pairing, evaluated: Evaluated, module: nn.Module, bits: dict[int, int]) -> bool:
        """Tell whether outputs or weights have fewer bits than in training; where that is unknown, than all there."""
        if pairing.twin is None:
            return min((*bits.values(), *_weight_bits(module)), default=64) < (self.trained.fewest or 0)
        known = pairing.output_bits
        if any(value < known.get(part, 0) for part, value in bits.items()) or pairing.has_coarser_weights():
            return True
        if pairing.twin is module:
            return False
        if evaluated.rounded[0] != self.step():
            evaluated.rounded = (self.step(), pairing.has_rounded_weights())
        return evaluated.rounded[1]

    def _gap(self, call: Call, coarse: list[Tensor], pairing: Pairing) -> float | None:
        """Return how far outputs are from those in fp32, beyond what the autocast of the training does to them.

        By the triangle inequality that is the least by which they are apart from what the training itself would give.
        """
        held = [(tensor, pairing.unrounded(part, name, tensor)) for part, name, tensor in tensors_of(call.module)]
        is_double = any(tensor.dtype == torch.float64 for _, tensor in held)

        def widened(tensor: Tensor) -> Tensor:
            dtype = torch.float64 if is_double else torch.float32
            return tensor.detach().to(dtype, copy=True) if tensor.is_floating_point() else cloned(tensor)

        def unrounded(tensor: Tensor) -> Tensor:
            return widened(self.casts.source(tensor))

        wide = {id(tensor): _alike(tensor, widened(exact)) for tensor, exact in held}
        exact = call.repeat(wide, unrounded, without_autocast(wide))
        gap = output_gap(coarse, exact)
        if gap is None or gap < DOUBT:
            return gap
        again = call.repeat({id(tensor): _alike(tensor, cloned(tensor)) for tensor, _ in held}, cloned, nullcontext())
        if (output_gap(coarse, again) or 0.0) > SAME * gap:
            return None
        if pairing.region is None:
            return gap
        kind, dtype = pairing.region
        own = output_gap(call.repeat(wide, unrounded, torch.autocast(kind, dtype)), exact)
        return max(0.0, gap - (own or 0.0)) if own is None or own < gap else 0.0


def _is_due(evaluated: Evaluated, step: int) -> bool:
    """Count a batch and tell whether to repeat it: the first ones of evaluations 1 to 4, 8, 16, 32, ..."""
    if evaluated.step != step:
        evaluated.step, evaluated.batches = step, 0
        evaluated.evaluations += 1
    evaluated.batches += 1
    number = evaluated.evaluations
    return evaluated.batches <= BATCHES and (number <= 4 or number & (number - 1) == 0)


def _weight_bits(module: nn.Module) -> list[int]:
    return [MANTISSA_BITS[p.dtype] for p in module.parameters() if p.dtype in MANTISSA_BITS]


def _alike(tensor: Tensor, replacement: Tensor) -> Tensor:
    """Return a replacement as a parameter where the original is one."""
    return nn.Parameter(replacement, requires_grad=False) if isinstance(tensor, nn.Parameter) else replacement
