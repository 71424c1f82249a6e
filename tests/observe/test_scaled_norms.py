# mypy: allow-untyped-calls
"""Is a clip of scaled gradients found although torch does not know of it?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.amp import GradScaler

from harness.observe.scaled_norms import ScaledNorms
from tests.observe.loops import seen, weight

SCALE = 1024.0

Change = Callable[[torch.Tensor], torch.Tensor]


def scaled_steps(change: Change, losses: list[float], *, unscales: bool = False) -> None:
    """Take a step for each loss, whose gradient is (loss, loss/2048); change the gradients before the scaler's step."""
    parameter = weight(1, 1)
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    scaler = GradScaler("cpu", init_scale=SCALE, enabled=True)
    for loss in losses:
        optimizer.zero_grad()
        scaler.scale((parameter * torch.tensor([loss, loss / 2048])).sum()).backward()
        if unscales:
            scaler.unscale_(optimizer)
        assert parameter.grad is not None
        parameter.grad = change(parameter.grad)
        scaler.step(optimizer)
        scaler.update()


def normed(grad: torch.Tensor) -> torch.Tensor:
    """Bring the 2-norm to 1."""
    return torch.div(grad, grad.norm())


MANY = [1.0, 1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("change", "losses", "size"),
    [
        (normed, MANY, 1.0),
        (lambda grad: grad.clamp(-3, 3), [1.0, 1.0, 6.0, 12.0], 3.0),
        (lambda grad: grad, MANY, 0.0),
        (lambda grad: grad / 4, MANY, 0.0),
        (normed, [1.0, 1.0, 1.0], 0.0),
        (normed, [1.0, 1.0], 0.0),
        (lambda grad: grad * float("nan"), MANY, 0.0),
    ],
)
def test_the_size_that_every_attempt_ends_with(change: Change, losses: list[float], size: float) -> None:
    """By norm or by value; an average, gradients of one size, and one attempt alone say nothing."""
    found = seen(ScaledNorms(), lambda: scaled_steps(change, losses))
    assert found["fixed_scaled_norm"] == pytest.approx(size, rel=1e-4)


@pytest.mark.parametrize(("limit", "size"), [(0.5, 0.5), (200.0 * SCALE, 0.0), (0.1 * SCALE, 0.0), (float("inf"), 0.0)])
def test_a_clamp_in_a_hook_shows_by_many_elements_of_one_size(limit: float, size: float) -> None:
    """The gradients have it before anybody could look; a limit that was multiplied by the scale is right."""
    parameter = weight(*[1.0] * 32)
    parameter.register_hook(lambda grad: grad.clamp(-limit, limit))
    optimizer, scaler = torch.optim.SGD([parameter], lr=0.0), GradScaler("cpu", init_scale=SCALE)
    slope = torch.linspace(0.5, 1.5, 32)

    def train() -> None:
        for loss in (1.0, 1.0, 2.0, 4.0):
            optimizer.zero_grad()
            scaler.scale((parameter * slope * loss).sum()).backward()
            scaler.step(optimizer)
            scaler.update()

    assert seen(ScaledNorms(), train)["fixed_scaled_norm"] == size


def test_a_clip_after_unscale_is_the_right_one() -> None:
    """What happens to gradients of their true size is no matter."""
    assert seen(ScaledNorms(), lambda: scaled_steps(normed, MANY, unscales=True))["fixed_scaled_norm"] == 0.0
