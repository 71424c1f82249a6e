# mypy: allow-untyped-calls
"""Is a schedule that runs ahead of the optimizer told from one that does not?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer, lr_scheduler

from harness.observe.scaling import Scaling
from harness.observe.schedules import Schedules
from tests.observe.loops import loss_that, scaled_step, watched, weight

LONG_SKIP = "xxxxxxxx............"
"""Case A03: 8 of 20 attempts are skipped."""


class Halving(lr_scheduler.LRScheduler):
    """A schedule of the user's own, whose step calls its base class."""

    def get_lr(self) -> list[float | Tensor]:
        """Return half of each rate."""
        return [group["lr"] / 2 for group in self.optimizer.param_groups]

    def step(self, epoch: int | None = None) -> None:
        """Do what every schedule does."""
        super().step(epoch)


def in_sequence(optimizer: Optimizer) -> Any:
    """Return a warm-up that hands over to a decay."""
    warm, decay = lr_scheduler.ConstantLR(optimizer), lr_scheduler.ExponentialLR(optimizer, 0.9)
    return lr_scheduler.SequentialLR(optimizer, [warm, decay], milestones=[2])


def chained(optimizer: Optimizer) -> Any:
    """Return two schedules that multiply."""
    return lr_scheduler.ChainedScheduler(
        [lr_scheduler.ExponentialLR(optimizer, 0.9), lr_scheduler.StepLR(optimizer, 2)], optimizer
    )


KINDS: dict[str, Callable[[Optimizer], Any]] = {
    "lambda": lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda _step: 1.0),
    "cosine_restarts": lambda optimizer: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 5),
    "one_cycle": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100),
    "in_sequence": in_sequence,
    "chained": chained,
    "users_own": Halving,
}


def train(make: Callable[[Optimizer], Any], attempts: str, *, when: str = "always", every: int = 1) -> None:
    """Take one attempt per letter (x is skipped), and advance the schedule always or only when it was taken."""
    parameter, scaler = weight(1), GradScaler("cpu", init_scale=2.0**30)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    scheduler = make(optimizer)
    for number, letter in enumerate(attempts, 1):
        scaled_step(scaler, optimizer, loss_that(parameter, overflows=letter == "x"))
        if number % every == 0 and (when == "always" or letter != "x"):
            scheduler.step()


def counts(loop: Callable[[], Any]) -> tuple[int, int, int]:
    """Return steps, advances and lead."""
    with watched(Scaling(), Schedules()) as attachment:
        loop()
        found = attachment.summary()
    assert found["observer_notes"] == []
    return found["optimizer_steps"], found["scheduler_steps"], found["schedule_lead"]


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize("kind", KINDS)
def test_a_schedule_on_skipped_steps_leads(kind: str) -> None:
    """20 advances for 12 steps: 8 of them came after an attempt that was skipped."""
    assert counts(lambda: train(KINDS[kind], LONG_SKIP)) == (12, 20, 8)


@pytest.mark.parametrize("kind", KINDS)
def test_a_schedule_that_follows_the_optimizer_never_leads(kind: str) -> None:
    """Only steps that were taken advance it."""
    assert counts(lambda: train(KINDS[kind], LONG_SKIP, when="taken")) == (12, 12, 0)


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
def test_a_schedule_per_epoch_may_end_on_a_skipped_step() -> None:
    """Every fifth attempt ends an epoch; steps were taken since the last advance, so nothing runs ahead."""
    assert counts(lambda: train(KINDS["lambda"], "....x....x", every=5)) == (8, 2, 0)


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
def test_an_epoch_without_any_step_leads_once() -> None:
    """When no step of an epoch was taken, its advance came too early."""
    assert counts(lambda: train(KINDS["lambda"], "xxx...", every=3)) == (3, 2, 1)


def test_making_a_schedule_is_no_advance() -> None:
    """Each kind sets its first learning rate by a step of its own."""
    parameter, scaler = weight(1), GradScaler("cpu", init_scale=8.0)
    optimizer = torch.optim.SGD([parameter], lr=0.1)

    def loop() -> None:
        scaled_step(scaler, optimizer, loss_that(parameter, overflows=False))
        for make in KINDS.values():
            make(optimizer)

    assert counts(loop) == (1, 0, 0)


def test_two_optimizers_have_schedules_of_their_own() -> None:
    """The skip of one optimizer is no lead of the other one's schedule."""
    scaler, parameters = GradScaler("cpu", init_scale=8.0), [weight(1), weight(1)]
    optimizers = [torch.optim.SGD([p], lr=0.1) for p in parameters]
    schedules = [KINDS["lambda"](optimizer) for optimizer in optimizers]

    def loop() -> None:
        scaled_step(scaler, optimizers[0], loss_that(parameters[0], overflows=False))
        scaled_step(scaler, optimizers[1], loss_that(parameters[1], overflows=True))
        schedules[0].step()

    assert counts(loop) == (1, 1, 0)


def test_plateau_without_a_scaler() -> None:
    """Without a scaler nothing is skipped, and advances are not counted."""
    optimizer = torch.optim.SGD([weight(1)], lr=0.1)
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer)

    def loop() -> None:
        for _ in range(3):
            optimizer.step()
            schedule.step(1.0)

    assert counts(loop) == (3, 0, 0)


def test_plateau_under_a_scaler() -> None:
    """A schedule that takes the metric leads like any other."""
    parameter, scaler = weight(1), GradScaler("cpu", init_scale=2.0**30)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer)

    def loop() -> None:
        for overflows in (False, True):
            scaled_step(scaler, optimizer, loss_that(parameter, overflows=overflows))
            schedule.step(1.0)

    assert counts(loop) == (1, 2, 1)


@pytest.mark.parametrize(("when", "expected"), [("always", (1, 3, 2)), ("taken", (1, 1, 0))])
def test_a_fused_optimizer_leads_when_it_skipped_inside(when: str, expected: tuple[int, int, int]) -> None:
    """Its calls are no steps where the number from the scaler says that nothing was changed."""
    parameter, scaler = weight(1), GradScaler("cpu", init_scale=2.0**30)
    optimizer = torch.optim.AdamW([parameter], lr=0.1, fused=True)
    schedule = KINDS["lambda"](optimizer)

    def loop() -> None:
        for overflows in (True, False, True):
            optimizer.zero_grad()
            scaler.scale(loss_that(parameter, overflows=overflows)).backward()
            scaler.step(optimizer)
            scaler.update()
            if when == "always" or not overflows:
                schedule.step()

    assert counts(loop) == expected
