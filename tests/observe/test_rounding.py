"""Is it seen that fp32 weights are rounded between the steps, and only where updates are lost by it?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.observe.rounding import Rounding
from tests.observe.loops import seen, step_with, weight

Change = Callable[[Tensor], Tensor]

UP = 2.0**-7
"""The spacing of bf16 above 1."""


def to_bf16(exact: Tensor) -> Tensor:
    """Round to the nearest."""
    return exact.bfloat16().float()


def at_random(exact: Tensor) -> Tensor:
    """Round up with the probability of the part that is cut off."""
    return ((exact / UP) + torch.rand(exact.shape)).floor() * UP


def trained(change: Change, size: float, steps: int) -> dict[str, float]:
    """Move 256 weights of 1 up by ``size`` of the spacing in each step, and change them after it."""
    parameter = weight(*[1.0] * 256)
    optimizer = torch.optim.SGD([parameter], lr=size * UP)
    torch.manual_seed(0)

    def train() -> None:
        for _ in range(steps):
            step_with(optimizer, [-1.0] * 256)
            with torch.no_grad():
                parameter.copy_(change(parameter.detach()))

    found: dict[str, float] = seen(Rounding(), train)
    return found


@pytest.mark.parametrize(
    ("change", "size", "rounded", "stalled"),
    [
        (to_bf16, 0.25, 1.0, 1.0),
        (lambda exact: exact.half().float(), 0.01, 1.0, 1.0),
        (to_bf16, 0.75, 1.0, 0.0),
        (lambda exact: exact, 0.3, 0.0, 0.0),
        (lambda exact: exact * 1.001, 0.25, 0.0, 0.0),
    ],
    ids=["bf16", "fp16", "large steps", "not rounded", "changed otherwise"],
)
def test_rounded_weights_and_lost_updates(change: Change, size: float, rounded: float, stalled: float) -> None:
    """A quarter of the spacing is lost, three quarters arrive; what is not rounded is not on the grid."""
    found = trained(change, size, steps=4)
    assert (found["rounded_weight_share"], found["stalled_rounded_share"]) == (rounded, stalled)


def test_what_is_rounded_at_random_arrives() -> None:
    """Single steps stall, and most of the weights have moved all the same."""
    found = trained(at_random, 0.9, steps=4)
    assert found["rounded_weight_share"] == 1.0
    assert found["stalled_rounded_between"] < 0.3


def test_one_sample_alone_says_nothing() -> None:
    """The first step may begin with weights that were loaded from 16 bits."""
    assert trained(to_bf16, 0.25, steps=2)["rounded_weight_share"] == 0.0


def test_weights_that_live_on_the_grid_are_left_alone() -> None:
    """Whole numbers that move by one lose nothing."""
    parameter = weight(1, 2, 3)
    optimizer = torch.optim.SGD([parameter], lr=1.0)

    def train() -> None:
        for _ in range(4):
            step_with(optimizer, [1, 1, 1])

    assert seen(Rounding(), train)["stalled_rounded_share"] == 0.0


class RoundingSGD(torch.optim.SGD):
    """Rounds to bf16 within its step."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Take the step, and round."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.copy_(to_bf16(parameter - group["lr"] * parameter.grad))


def test_an_optimizer_that_rounds_by_itself() -> None:
    """A quarter of the spacing never arrives."""
    parameter = weight(*[1.0] * 64)
    optimizer = RoundingSGD([parameter], lr=0.25 * UP)

    def train() -> None:
        for _ in range(4):
            step_with(optimizer, [-1.0] * 64)

    found = seen(Rounding(), train)
    assert (found["rounded_weight_share"], found["stalled_rounded_share"]) == (1.0, 1.0)
    assert found["stalled_rounded_between"] == 1.0
