# mypy: allow-untyped-calls
"""Do observers reach any loop, and get its events as they happen?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.amp import GradScaler
from torch.optim import Optimizer, lr_scheduler

from harness.observe.attach import FIRST_SAMPLES
from harness.observe.base import Observer
from tests.observe.attached import all_events, fp16_step
from tests.observe.loops import loss_that, scaled_step, watched, weight


def test_a_usual_step_gives_its_events_in_order() -> None:
    """Autocast, backward, unscale, clip, step, update, schedule: each once, as it happens."""
    parameter, scaler = weight(1, 1), GradScaler("cpu", init_scale=2.0)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    schedule = lr_scheduler.StepLR(optimizer, 1)
    notes = all_events()
    with watched(notes):
        fp16_step(parameter, optimizer, scaler, schedule)
    assert [event.removeprefix("on_") for event in notes.events] == [
        "autocast",
        "backward",
        "backward_end",
        "unscale",
        "clip",
        "scaler_step",
        "optimizer_step",
        "optimizer_stepped",
        "attempt_end",
        "scaler_update",
        "schedule",
    ]


def with_region(model: nn.Module) -> None:
    """Evaluate in a region."""
    with torch.no_grad():
        model(torch.ones(1, 1))


@torch.inference_mode()
def decorated(model: nn.Module) -> None:
    """Evaluate in a function that is one."""
    model(torch.ones(1, 1))


def clipped(model: nn.Module) -> None:
    """Let torch enter such a region for itself, and go on with a training pass."""
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    model(torch.ones(1, 1))


@pytest.mark.parametrize(("evaluate", "expected"), [(with_region, 1), (decorated, 1), (clipped, 0)])
def test_an_evaluation_is_seen_in_any_attempt(evaluate: Callable[[nn.Module], None], expected: int) -> None:
    """Whoever enters a region without gradients between two attempts evaluates, with or without model.eval()."""
    model, notes = nn.Linear(1, 1), all_events()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(notes, interval=1000):
        for _ in range(30):
            model(torch.ones(1, 1)).sum().backward()
            optimizer.step()
        notes.events.clear()
        evaluate(model)
        evaluate(model)
        model(torch.ones(1, 1)).sum().backward()
        assert notes.events.count("on_forward") == (3 if expected else 0)
        optimizer.step()
        model(torch.ones(1, 1)).sum().backward()
    assert notes.events.count("on_forward") == (3 if expected else 0)


@pytest.mark.parametrize(("mode", "unused"), [("used", 0), ("thrown away", 1)])
def test_zeroed_gradients_are_told_when_nobody_used_them(mode: str, unused: int) -> None:
    """After an attempt there is nothing to tell."""
    model, notes = nn.Linear(1, 1), all_events()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(notes):
        model(torch.ones(1, 1)).sum().backward()
        if mode == "used":
            optimizer.step()
        optimizer.zero_grad()
        model.zero_grad()
    assert notes.events.count("on_zero_grad") == unused


def test_the_own_hooks_of_an_optimizer_come_first() -> None:
    """What they do to the gradients is seen."""
    model, seen_norms = nn.Linear(1, 1, bias=False), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    class Norms(Observer):
        def on_optimizer_step(self, optimizer: Optimizer) -> None:
            (weight,) = model.parameters()
            assert weight.grad is not None
            seen_norms.append(weight.grad.item())

    def halve(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        (parameter,) = model.parameters()
        assert parameter.grad is not None
        parameter.grad /= 2

    optimizer.register_step_pre_hook(halve)
    with watched(Norms()):
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(1, 1)).sum().backward()
            optimizer.step()
    assert seen_norms == [0.5, 0.5]
    assert len(optimizer._optimizer_step_pre_hooks) == 1


def test_a_skipped_step_ends_its_attempt_once() -> None:
    """The optimizer is not called, and the attempt ends all the same."""
    parameter, notes = weight(1), all_events()
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    with watched(notes) as attachment:
        scaled_step(GradScaler("cpu"), optimizer, loss_that(parameter, overflows=True))
        assert attachment.attempts == 1
    assert notes.events.count("on_attempt_end") == 1
    assert "on_optimizer_step" not in notes.events


@pytest.mark.parametrize(("interval", "expected"), [(1, 12), (4, 5), (100, 2)])
def test_forward_passes_are_watched_in_sampled_attempts(interval: int, expected: int) -> None:
    """Of twelve attempts those are looked at that the interval names, and the first ones."""
    model, notes = nn.Linear(1, 1), all_events()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert FIRST_SAMPLES[:2] == (1, 10)
    with watched(notes, interval=interval):
        for _ in range(12):
            model(torch.ones(1, 1)).sum().backward()
            optimizer.step()
    assert notes.events.count("on_forward") == expected


def test_evaluation_is_watched_in_every_attempt() -> None:
    """model.eval() and model.train(False) switch the watch on until the next step ends."""
    model, notes = nn.Linear(1, 1), all_events()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(notes, interval=10**6):
        optimizer.step()
        model(torch.ones(1, 1))
        assert "on_forward" not in notes.events
        model.eval()
        model(torch.ones(1, 1))
        assert notes.events.count("on_forward") == 1
        optimizer.step()
        model(torch.ones(1, 1))
    assert notes.events.count("on_forward") == 1
