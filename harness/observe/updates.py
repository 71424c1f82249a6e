"""Do the updates arrive in the weights, or do they round away?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from harness.observe.base import Observer, picked
from harness.observe.formats import HALF
from harness.observe.gradients import count_nonfinite, largest, median
from harness.observe.overflows import on_host


@dataclass(frozen=True)
class Held:
    """The elements that an optimizer holds, by format."""

    weights: Counter[torch.dtype]
    state: Counter[torch.dtype]

    @staticmethod
    def of(optimizer: Optimizer) -> Held:
        """Count trainable weights, and tensors of the state that are more than a number."""
        weights: Counter[torch.dtype] = Counter()
        for parameter in (p for group in optimizer.param_groups for p in group["params"] if p.requires_grad):
            weights[parameter.dtype] += parameter.numel()
        state: Counter[torch.dtype] = Counter()
        for value in (v for of_weight in optimizer.state.values() for v in of_weight.values()):
            if isinstance(value, Tensor) and value.numel() > 1:
                state[value.dtype] += value.numel()
        return Held(weights, state)


class Updates(Observer):
    """Stalled updates, and the number formats of weights and optimizer state.

    ``stalled_update_share``  weights with a non-zero gradient that a step left bitwise unchanged, 0 to 1
    ``stalled_half_share``    the same among the weights in a 16-bit format; 0 without such weights
    ``stalled_half_largest``  the same in the sampled step with most of them
    ``stalled_half_between``  the same from a sampled step to the beginning of the next sampled one, over the most
                              steps: updates that are kept for later, or rounded at random, have arrived by then
    ``half_weight_share``     trainable weights that the optimizer holds in a 16-bit format, 0 to 1
    ``lost_weights_step``     first sampled step that began with weights that are not finite, 0 if none did
    ``half_state_share``      optimizer state tensors (element-wise ones) in a 16-bit format, 0 to 1
    ``flushed_moment_share``  of Adam's fp16 moments: elements whose second one is 0 although the first is not, so that
                              the update divides by eps alone, 0 to 1; the largest sample; 0 without such moments
    """

    def __init__(self) -> None:
        self.before: list[tuple[bool, list[Tensor], Tensor, Tensor]] = []
        self.current: list[tuple[bool, Tensor]] = []
        self.pending: list[tuple[int, list[tuple[bool, Tensor]]]] = []
        self.history: list[dict[str, Any]] = []
        self.held: dict[int, Held] = {}
        """Optimizer -> in which formats it holds what; it may be gone at the end."""
        self.counted: dict[int, int] = {}
        """Optimizer -> its number of weights when that was counted."""
        self.step = 0
        self.lost_step = 0
        self.kept: dict[int, tuple[Tensor, Tensor]] = {}
        """Optimizer -> some of its half weights after the last sampled step, and which of them had a gradient."""
        self.compared: list[Tensor] = []
        """What stalled since then, compared in this step."""
        self.between: list[tuple[int, Tensor]] = []
        """Steps in between, and what stalled over them."""
        self.flushed: list[tuple[Tensor, int]] = []
        self.flushed_share = 0.0

    def on_optimizer_step(self, optimizer: Optimizer) -> None:
        """Keep some weights, with whether their gradient is non-zero."""
        weights = dense_weights(optimizer)
        for half in (False, True):
            some = [p for p in weights if (p.dtype in HALF) == half]
            if some:
                moving = picked([p.grad for p in some if p.grad is not None]) != 0
                old = picked(some)
                self.before.append((half, some, old, moving))
                if half:
                    self._compare(optimizer, old)

    def on_optimizer_stepped(self, optimizer: Optimizer) -> None:
        """Compare with the weights now."""
        for half, weights, old, moving in self.before:
            now = picked(weights)
            stalled = torch.count_nonzero((now == old) & moving)
            if half:
                self.kept[id(optimizer)] = (now, moving)
            counts = [stalled, torch.count_nonzero(moving)]
            self.current.append((half, torch.stack([*counts, count_nonfinite(old)])))
        self.before = []
        num_weights = sum(len(group["params"]) for group in optimizer.param_groups)
        if self.counted.get(id(optimizer)) != num_weights:
            self.counted[id(optimizer)] = num_weights
            self.held[id(optimizer)] = Held.of(optimizer)
        moments = fp16_moments(optimizer)
        if moments:
            first, second = (picked(tensors) for tensors in zip(*moments, strict=True))
            self.flushed.append((torch.count_nonzero((second == 0) & (first != 0)), second.numel()))

    def _compare(self, optimizer: Optimizer, now: Tensor) -> None:
        """Compare with what the last sampled step left."""
        then, moving = self.kept.pop(id(optimizer), (now[:0], now[:0]))
        if then.shape == now.shape:
            self.compared.append(torch.count_nonzero((now == then) & moving) / torch.count_nonzero(moving))

    def on_attempt_end(self, step: int) -> None:
        """Keep the sample of this attempt."""
        self.between += [(step - self.step, stalled) for stalled in self.compared]
        self.step, self.compared = step, []
        if self.current:
            self.pending.append((step, self.current))
            self.current = []

    def read(self) -> list[dict[str, Any]]:
        """Return the samples as numbers."""
        new: list[dict[str, Any]] = []
        for step, parts in self.pending:
            counts = [(half, *numbers.tolist()) for half, numbers in parts]
            stalled, moving, lost = (sum(entry[i] for entry in counts) for i in (1, 2, 3))
            half_stalled, half_moving = (sum(entry[i] for entry in counts if entry[0]) for i in (1, 2))
            self.lost_step = self.lost_step or (step if lost else 0)
            sample: dict[str, Any] = {"step": step}
            sample |= {"stalled_update_share": stalled / moving} if moving else {}
            sample |= {"stalled_half_share": half_stalled / half_moving} if half_moving else {}
            new.append(sample)
        self.pending = []
        shares = on_host([stalled for _, stalled in self.between])
        for (steps, _), share in zip(self.between, shares, strict=True):
            new.append({"step": self.step, "steps_between": steps, "stalled_half_between": share})
        self.between = []
        self.flushed_share = max([self.flushed_share, *(float(count) / of for count, of in self.flushed)])
        self.flushed = []
        self.history += new
        return new

    def summary(self) -> dict[str, Any]:
        """Return the median stall and the number formats."""
        self.read()
        held = list(self.held.values())
        half_weights = _share(Counter(), *(one.weights for one in held))
        return {
            "stalled_update_share": median(self.history, "stalled_update_share"),
            # Of few samples the first ones are large steps, which say least of those to come.
            "stalled_half_share": median(self.history, "stalled_half_share", upper=True) if half_weights else 0.0,
            "stalled_half_largest": largest(self.history, "stalled_half_share"),
            "stalled_half_between": self._over_most_steps(),
            "half_weight_share": half_weights,
            "lost_weights_step": self.lost_step,
            "half_state_share": _share(Counter(), *(one.state for one in held)),
            "flushed_moment_share": self.flushed_share,
            "weight_dtypes": ",".join(sorted({str(t).removeprefix("torch.") for one in held for t in one.weights})),
        }

    def _over_most_steps(self) -> float | None:
        """Return what stalls between two samples that are as far apart as any, the median where there are several."""
        most = largest(self.history, "steps_between")
        return median(
            [sample for sample in self.history if sample.get("steps_between") == most], "stalled_half_between"
        )


def fp16_moments(optimizer: Optimizer) -> list[tuple[Tensor, Tensor]]:
    """Return Adam's first and second moments of each parameter for which both are kept in fp16."""
    pairs = [(state.get("exp_avg"), state.get("exp_avg_sq")) for state in optimizer.state.values()]
    return [
        (first, second)
        for first, second in pairs
        if isinstance(first, Tensor) and isinstance(second, Tensor) and first.dtype == second.dtype == torch.float16
    ]


def dense_weights(optimizer: Optimizer) -> list[Tensor]:
    """Return the weights that a step can change, without those of sparse gradients."""
    return [p for p in moving_weights(optimizer) if p.grad is not None and not p.grad.is_sparse]


def moving_weights(optimizer: Optimizer) -> Iterator[Tensor]:
    """Yield the parameters that a step can change: those of groups whose learning rate is not 0."""
    for group in optimizer.param_groups:
        if float(group["lr"]) != 0:
            yield from group["params"]


def _share(total: Counter[torch.dtype], *parts: Counter[torch.dtype]) -> float | None:
    """Return the share of elements in a 16-bit format, or None without elements."""
    for part in parts:
        total.update(part)
    elements = total.total()
    return sum(total[dtype] for dtype in HALF) / elements if elements else None
