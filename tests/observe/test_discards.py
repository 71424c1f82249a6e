# mypy: allow-untyped-calls
"""Are gradients counted that a loop throws away because they are not finite?"""

from __future__ import annotations

import pytest
import torch
from torch.amp import GradScaler
from torch.optim.lr_scheduler import StepLR

from harness.observe.discards import Discards
from tests.observe.loops import loss_that, seen, weight

Found = dict[str, float | None]


def guarded(pattern: str, *, zero_first: bool = True, schedules: bool = False) -> Found:
    """Run a loop that skips what is not finite: ``x`` is an overflow, anything else a step."""
    parameter = weight(1.0)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    schedule = StepLR(optimizer, 100)

    def train() -> None:
        for letter in pattern:
            if zero_first:
                optimizer.zero_grad()
            loss_that(parameter, overflows=letter == "x").backward()
            assert parameter.grad is not None
            if parameter.grad.isfinite().all():
                optimizer.step()
            if not zero_first:
                optimizer.zero_grad()
            if schedules:
                schedule.step()
        optimizer.zero_grad()

    return seen(Discards(), train)


@pytest.mark.parametrize("zero_first", [True, False])
@pytest.mark.parametrize(("pattern", "share"), [("....", 0.0), ("xx..", 0.0), ("..x.", 0.5), ("xxxx", 1.0)])
def test_the_second_half_counts(pattern: str, share: float, *, zero_first: bool) -> None:
    """A scale that is searched for in the beginning throws away there only."""
    assert guarded(pattern, zero_first=zero_first)["discarded_share_late"] == share


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize("zero_first", [True, False])
def test_a_schedule_that_advances_all_the_same(*, zero_first: bool) -> None:
    """Two advances after gradients that were thrown away; those after steps do not count."""
    assert guarded(".xx.", zero_first=zero_first, schedules=True)["discarded_leads"] == 2


def test_finite_gradients_may_be_thrown_away() -> None:
    """As those of a generator while the discriminator learns."""
    parameter = weight(1.0)
    optimizer = torch.optim.SGD([parameter], lr=0.1)

    def train() -> None:
        for _ in range(4):
            parameter.sum().backward()
            optimizer.zero_grad()

    assert seen(Discards(), train)["discarded_share_late"] == 0.0


def test_what_a_scaler_skips_is_its_own_matter() -> None:
    """GradScaler's skips are counted elsewhere."""
    parameter = weight(1.0)
    optimizer, scaler = torch.optim.SGD([parameter], lr=0.1), GradScaler("cpu", init_scale=4.0)

    def train() -> None:
        for _ in range(4):
            optimizer.zero_grad()
            scaler.scale(loss_that(parameter, overflows=True)).backward()
            scaler.step(optimizer)
            scaler.update()

    assert seen(Discards(), train)["discarded_share_late"] == 0.0


def test_without_a_backward_pass_it_is_missing() -> None:
    """Nothing seen is None."""
    assert seen(Discards(), lambda: None)["discarded_share_late"] is None
