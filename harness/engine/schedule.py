"""Which learning rate does each step have? A schedule over the steps that were taken."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR


def factor(step: int, *, warmup_steps: int, max_steps: int, cosine: bool) -> float:
    """Return the share of the peak learning rate at a step: linear warm-up, then constant or half a cosine."""
    if step < warmup_steps:
        return (step + 1) / (warmup_steps + 1)
    if not cosine:
        return 1.0
    progress = (step - warmup_steps) / max(1, max_steps - warmup_steps)
    return 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))


class Schedule:
    """Advances the learning rate with the optimizer: a skipped step does not use up the schedule."""

    def __init__(self, optimizer: Optimizer, *, warmup_steps: int, max_steps: int, cosine: bool) -> None:
        shape = partial(factor, warmup_steps=warmup_steps, max_steps=max_steps, cosine=cosine)
        self.scheduler = LambdaLR(optimizer, shape)

    def advance(self, taken: bool) -> None:
        """Tell the schedule whether the optimizer took the step."""
        if taken:
            self.scheduler.step()

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return self.scheduler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where a checkpoint stopped."""
        self.scheduler.load_state_dict(state)
