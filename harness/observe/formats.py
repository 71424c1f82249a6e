"""In which number formats is a model trained, and in which is it evaluated?"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import torch

MANTISSA_BITS = {
    torch.float64: 52,
    torch.float32: 23,
    torch.float16: 10,
    torch.bfloat16: 7,
    torch.float8_e4m3fn: 3,
    torch.float8_e5m2: 2,
}
"""Explicit mantissa bits (IEEE 754; bfloat16: Google's definition; OCP 8-bit floating point specification)."""

HALF = (torch.bfloat16, torch.float16)

Phase = Literal["train", "eval"]

REGION_INTERVAL = 20
"""Attempts between two regions without gradients that are looked into: evaluations are further apart, and a loop that
enters such a region in every step is not slowed down."""


REGULAR = 3
"""Times that a module has to run in the next attempt that is looked at before it counts as one that runs in each."""


@dataclass
class ModuleFormats:
    """The formats that one module showed, by phase: of its outputs and of its own weights."""

    is_leaf: bool
    """Whether it holds no other modules: what a container gives is what its last part gives."""
    output: dict[Phase, set[torch.dtype]] = field(default_factory=lambda: {"train": set(), "eval": set()})
    weight: dict[Phase, set[torch.dtype]] = field(default_factory=lambda: {"train": set(), "eval": set()})
    evaluated: set[int] = field(default_factory=set)
    """The attempts in which it ran without gradients."""
    trained: int = 0
    """The last attempt that was looked at and in which it ran with them, from 1."""
    is_training: bool = False
    """Whether it did since then."""

    def note_output(self, phase: Phase, dtype: torch.dtype) -> None:
        """Note the format of an output."""
        self.output[phase].add(dtype)

    def note_weight(self, phase: Phase, dtype: torch.dtype) -> None:
        """Note the format of a weight."""
        self.weight[phase].add(dtype)

    @property
    def is_coarser_in_eval(self) -> bool:
        """Whether its output has fewer mantissa bits in evaluation than in training."""
        evaluation, training = fewest_bits(self.output["eval"]), fewest_bits(self.output["train"])
        return evaluation is not None and training is not None and evaluation < training

    def is_companion(self, sampled: list[int]) -> bool:
        """Tell whether it is part of the training although it never has gradients, as the teacher of a distillation.

        It then runs in every attempt that is looked at, or in every one in which regions without gradients are, from
        its first one on; evaluations come in some. It may have been trained before.
        """
        if self.is_training or (not self.trained and (self.output["train"] or self.weight["train"])):
            return False
        runs = sorted(step for step in self.evaluated if step > self.trained)
        since = [step for step in sampled if step >= (runs[0] if runs else 0) and step > self.trained]
        apart = [later - earlier for earlier, later in pairwise(runs)]
        in_regions = apart.count(REGION_INTERVAL) >= REGULAR and max(apart) <= REGION_INTERVAL
        return (len(since) > 1 and set(runs).issuperset(since)) or in_regions


class Formats:
    """The formats of all modules, also of copies that were evaluated and are gone."""

    def __init__(self) -> None:
        self.every: list[ModuleFormats] = []
        self.sampled: list[int] = []
        """The attempts that were looked at."""

    def of(self, *, is_leaf: bool) -> ModuleFormats:
        """Return the formats of a module that is new."""
        formats = ModuleFormats(is_leaf)
        self.every.append(formats)
        return formats

    def end_attempt(self, step: int) -> None:
        """Note an attempt that was looked at, and what was trained in it."""
        self.sampled.append(step)
        for known in self.every:
            if known.is_training:
                known.trained, known.is_training = step, False

    def in_training(self) -> set[torch.dtype]:
        """Return the formats of outputs, and those of 16-bit weights, in training."""
        outputs = set().union(*(known.output["train"] for known in self.every if known.is_leaf))
        weights = set().union(*(known.weight["train"] for known in self.every))
        return {dtype for dtype in outputs if dtype in MANTISSA_BITS} | weights.intersection(HALF)

    def bits(self) -> dict[str, int | None]:
        """Return the fewest mantissa bits of outputs and weights in training, and in evaluation."""
        evaluated = [known for known in self.every if not known.is_companion(self.sampled)]
        phases: list[tuple[Phase, list[ModuleFormats]]] = [("train", self.every), ("eval", evaluated)]
        told: dict[str, int | None] = {}
        for phase, modules in phases:
            leaves = (known.output[phase] for known in modules if known.is_leaf)
            told[f"{phase}_output_bits"] = fewest_bits(set().union(*leaves))
            told[f"{phase}_weight_bits"] = fewest_bits(set().union(*(known.weight[phase] for known in modules)))
        return told


def fewest_bits(dtypes: set[torch.dtype]) -> int | None:
    """Return the fewest mantissa bits among formats of floating point; None without any."""
    return min((MANTISSA_BITS[dtype] for dtype in dtypes if dtype in MANTISSA_BITS), default=None)
