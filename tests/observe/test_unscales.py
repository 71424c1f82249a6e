# mypy: allow-untyped-calls
"""Is a weight found whose gradient two optimizers unscale?"""

from __future__ import annotations

import pytest
import torch
from torch.amp import GradScaler

from harness.observe.unscales import Unscales
from tests.observe.loops import seen, weight


def two_tasks(*, shares: bool, explicit: bool, backward_between: bool) -> float:
    """Take a step with two optimizers over one weight of their own each, and one that both may hold."""
    common, one, other = weight(1.0), weight(1.0), weight(1.0, 1.0)
    first = torch.optim.SGD([common, one], lr=0.1)
    second = torch.optim.SGD([other, *([common] if shares else [])], lr=0.1)
    scaler = GradScaler("cpu", init_scale=4.0)

    def train() -> None:
        scaler.scale(common.sum() + one.sum() + other.sum()).backward()
        for optimizer in (first, second):
            if explicit:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            if backward_between:
                second.zero_grad()
                scaler.scale(common.sum() + other.sum()).backward()
        scaler.update()

    share: float = seen(Unscales(), train)["shared_unscale_share"]
    return share


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize(("shares", "share"), [(True, 0.2), (False, 0.0)])
def test_a_shared_weight_counts_by_its_elements(*, explicit: bool, shares: bool, share: float) -> None:
    """One of five elements; the scaler unscales by itself where nobody did."""
    assert two_tasks(shares=shares, explicit=explicit, backward_between=False) == share


def test_new_gradients_are_unscaled_once() -> None:
    """With a backward pass in between the second optimizer unscales other gradients."""
    assert two_tasks(shares=True, explicit=True, backward_between=True) == 0.0
