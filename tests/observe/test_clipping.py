# mypy: allow-untyped-calls
"""Does the ratio tell whether somebody changed the gradients after they were clipped?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from harness.observe.clipping import Clipping
from tests.observe.loops import seen, weight

CLIP = torch.nn.utils.clip_grad_norm_


def clipped_step(*, then: Callable[[nn.Parameter], object] = id, limit: float = 1.0, norm_type: float = 2.0) -> None:
    """Clip a gradient of norm 5, do something, and step."""
    parameter = weight(1, 1)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    parameter.grad = torch.tensor([3.0, 4.0])
    torch.nn.utils.clip_grad_norm_([parameter], limit, norm_type=norm_type)
    then(parameter)
    optimizer.step()


def divide(parameter: nn.Parameter) -> None:
    """Divide the gradient by 1024, as a second unscale would."""
    assert parameter.grad is not None
    parameter.grad /= 1024


@pytest.mark.parametrize("limit", [1.0, 5.0, 100.0, float("inf")])
def test_untouched_gradients_have_ratio_one(limit: float) -> None:
    """Clipped or not, the optimizer gets what the clip left."""
    assert seen(Clipping(), lambda: clipped_step(limit=limit))["step_norm_ratio"] == pytest.approx(1.0, abs=1e-5)


def test_a_later_division_shows_in_the_ratio() -> None:
    """The norm at the step is 1/1024 of what the clip left."""
    assert seen(Clipping(), lambda: clipped_step(then=divide))["step_norm_ratio"] == pytest.approx(1 / 1024, rel=1e-4)


@pytest.mark.parametrize("norm_type", [1.0, float("inf")])
def test_other_norms_are_left_out(norm_type: float) -> None:
    """The sum of all absolute values is no measure for the 2-norm at the step: over many weights it is far larger."""
    assert seen(Clipping(), lambda: clipped_step(norm_type=norm_type))["step_norm_ratio"] is None


def test_only_one_clip_of_exactly_these_parameters_counts() -> None:
    """Two clips, or a clip of a part, say nothing about the whole norm."""
    one, other = weight(1), weight(1)
    optimizer = torch.optim.SGD([one, other], lr=0.1)

    def train() -> None:
        for parts in ([[one], [other]], [[one]]):
            one.grad, other.grad = torch.tensor([3.0]), torch.tensor([4.0])
            for part in parts:
                CLIP(part, 1.0)
            optimizer.step()

    assert seen(Clipping(), train)["step_norm_ratio"] is None


def test_without_a_clip_it_is_missing() -> None:
    """No clip, no ratio."""
    optimizer = torch.optim.SGD([weight(1)], lr=0.1)
    assert seen(Clipping(), optimizer.step)["step_norm_ratio"] is None
