"""How were the modules that are evaluated trained: in which formats, and with which weights?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn

from harness.observe.base import picked
from harness.observe.formats import MANTISSA_BITS

COARSE = (torch.float8_e5m2, torch.float8_e4m3fn, torch.bfloat16, torch.float16)
"""Formats to which weights are rounded for an export, the coarsest first."""

LEVELS = 256
"""Different numbers that 8 bits can hold."""

FEW = 16
"""Elements up to which weights may lie on a coarse grid by chance, as zeros and ones do."""

Region = tuple[str, torch.dtype] | None
"""Device type and format of the autocast region in which a module was called."""


@dataclass(frozen=True)
class Weight:
    """A weight as training had it."""

    bits: int
    """Its mantissa bits."""
    parameter: Any
    """Reference to it; functional_call trains tensors that are gone afterwards."""

    def own(self) -> Tensor | None:
        """Return the weight itself, as it is now."""
        return self.parameter() if self.parameter else None


class Trained:
    """The modules that ran with gradients."""

    def __init__(self) -> None:
        self.output_bits: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()
        """Fewest mantissa bits of the outputs of each module without children."""
        self.weights: WeakKeyDictionary[nn.Module, dict[str, Weight]] = WeakKeyDictionary()
        self.roots: WeakKeyDictionary[nn.Module, Region] = WeakKeyDictionary()
        """The modules that were called from outside, and how, the one that was met last at the end."""
        self.fewest: int | None = None
        """Fewest mantissa bits of any output or weight."""

    def note_output(self, module: nn.Module, bits: int) -> None:
        """Note the format of the output of a module without children."""
        self.output_bits[module] = min(bits, self.output_bits.get(module, bits))
        self.fewest = min(bits, self.fewest or bits)

    def note_root(self, root: nn.Module) -> None:
        """Note a module that was called from outside, with the weights of all its parts."""
        if not any(parameter.requires_grad for parameter in root.parameters()):
            return
        device = next(root.parameters()).device.type
        is_cast = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
        self.roots.pop(root, None)
        self.roots[root] = (device, torch.get_autocast_dtype(device)) if is_cast else None
        for part in root.modules():
            self.weights[part] = {
                name: Weight(bits, ref(tensor) if isinstance(tensor, nn.Parameter) else None)
                for name, tensor in part._parameters.items()  # noqa: SLF001 - functional_call swaps these
                if tensor is not None and (bits := MANTISSA_BITS.get(tensor.dtype))
            }
            for weight in self.weights[part].values():
                self.fewest = min(weight.bits, self.fewest or weight.bits)

    def twin(self, module: nn.Module) -> tuple[nn.Module, Region] | None:
        """Return the module that was trained: this one, or one of the same structure, the one met last."""
        roots = list(self.roots.items())[::-1]
        for root, region in roots:
            if any(part is module for part in root.modules()):
                return module, region
        structure = _structure(module)
        for root, region in roots:
            for part in root.modules():
                if type(part) is type(module) and _structure(part) == structure:
                    return part, region
        return None


class Pairing:
    """A module in evaluation beside the one that was trained; ``twin`` is None where none is known.

    Made for one call and not kept: a copy for evaluation has to go when its owner lets it go.
    """

    def __init__(self, module: nn.Module, trained: Trained) -> None:
        found = trained.twin(module)
        self.twin = found[0] if found else None
        self.region = found[1] if found else None
        parts = dict(self.twin.named_modules()) if self.twin else {}
        self.parts = [(part, parts[name]) for name, part in module.named_modules() if name in parts]
        self.others = {id(part): other for part, other in self.parts}
        self.output_bits = {
            id(part): trained.output_bits[other] for part, other in self.parts if other in trained.output_bits
        }
        self.weights = {
            (id(part), name): weight
            for part, other in self.parts
            for name, weight in trained.weights.get(other, {}).items()
        }

    def has_coarser_weights(self) -> bool:
        """Tell whether a weight has a coarser format than in training."""
        pairs = ((tensor, self.weights.get((id(part), name))) for part, name, tensor in self._own_weights())
        return any(weight and MANTISSA_BITS.get(tensor.dtype, weight.bits) < weight.bits for tensor, weight in pairs)

    def has_rounded_weights(self) -> bool:
        """Tell whether a weight lies on the grid of a coarser format, as after an export, and the trained one not."""
        for part, name, tensor in self._own_weights():
            weight = self.weights.get((id(part), name))
            own = weight.own() if weight else None
            if own is None or own is tensor or tensor.numel() <= FEW or tensor.dtype not in MANTISSA_BITS:
                continue
            if any(_is_on_grid(tensor, grid) and not _is_on_grid(own, grid) for grid in COARSE):
                return True
            if _is_quantised(tensor, own):
                return True
        return False

    def unrounded(self, part: nn.Module, name: str, tensor: Tensor) -> Tensor:
        """Return the trained tensor of which this one is a rounding, or itself."""
        weight, other = self.weights.get((id(part), name)), self.others.get(id(part))
        own = weight.own() if weight else other and other._buffers.get(name)  # noqa: SLF001 - as above
        if own is None or own is tensor or own.shape != tensor.shape or not tensor.is_floating_point():
            return tensor
        own = own.detach().to(tensor.device)
        formats = (tensor.dtype,) if tensor.dtype in COARSE else COARSE
        is_rounding = any(torch.equal(own.to(grid).to(tensor.dtype), tensor) for grid in formats)
        return own if is_rounding or _is_quantised(tensor, own) else tensor

    def _own_weights(self) -> Iterator[tuple[nn.Module, str, Tensor]]:
        for part, _ in self.parts:
            for name, tensor in part._parameters.items():  # noqa: SLF001 - as above
                if tensor is not None:
                    yield part, name, tensor


def _structure(module: nn.Module) -> tuple[tuple[str, torch.Size], ...]:
    return tuple((name, parameter.shape) for name, parameter in module.named_parameters())


def _is_on_grid(tensor: Tensor, grid: torch.dtype) -> bool:
    return torch.equal(tensor.to(grid).to(tensor.dtype), tensor)


def _is_quantised(tensor: Tensor, own: Tensor) -> bool:
    """Tell whether weights are the trained ones on the levels of 8 bits, as after a scaled rounding.

    Of two weights the larger one is not below the other then; of weights that were trained apart it often is.
    """
    if tensor.shape != own.shape or tensor.numel() < 4 * LEVELS or not tensor.is_floating_point():
        return False
    ours, theirs = (picked([weights.detach().float()]) for weights in (tensor, own))
    if not 2 < len(torch.unique(ours)) <= LEVELS or len(torch.unique(theirs)) < 2 * LEVELS:
        return False
    return bool((ours[theirs.argsort().to(ours.device)].diff() >= 0).all())
