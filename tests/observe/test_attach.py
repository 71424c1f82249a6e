# mypy: allow-untyped-calls
"""Do observers reach any loop, change nothing, and leave nothing behind?"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer, lr_scheduler
from torch.optim import optimizer as optimizer_module

from harness.observe.attach import FIRST_SAMPLES, Attachment
from harness.observe.base import Observer
from harness.observe.events import EVENTS
from tests.observe.loops import loss_that, scaled_step, watched, weight

MODULE = nn.modules.module


def patched() -> dict[str, Any]:
    """Return everything of torch that an attachment may touch."""
    clip, utils = torch.nn.utils.clip_grad, torch.nn.utils
    owners: list[tuple[Any, tuple[str, ...]]] = [
        (GradScaler, ("unscale_", "step", "update", "load_state_dict")),
        (nn.Module, ("train", "eval", "__call__")),
        (clip, ("clip_grad_norm_", "clip_grad_value_", "_get_total_norm", "_clip_grads_with_norm_")),
        (utils, ("clip_grad_norm_", "clip_grad_value_", "get_total_norm", "clip_grads_with_norm_")),
        (torch.autograd, ("backward",)),
        (torch.autocast, ("__enter__", "__exit__")),
        (lr_scheduler.LRScheduler, ("step",)),
        (lr_scheduler.SequentialLR, ("step",)),
        (lr_scheduler.ReduceLROnPlateau, ("step",)),
    ]
    functions = {f"{owner.__name__}.{name}": vars(owner).get(name) for owner, names in owners for name in names}
    return functions | {
        "forward hooks": dict(MODULE._global_forward_hooks),
        "pre hooks": dict(optimizer_module._global_optimizer_pre_hooks),
        "post hooks": dict(optimizer_module._global_optimizer_post_hooks),
    }


@pytest.fixture(autouse=True)
def torch_is_left_as_it_was() -> Iterator[None]:
    """Fail a test that leaves a hook or a replaced function behind."""
    before = patched()
    yield
    assert patched() == before


class Notes(Observer):
    """Notes every event."""

    in_between = EVENTS

    def __init__(self) -> None:
        self.events: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("on_"):
            return lambda *_: self.events.append(name)
        return super().__getattribute__(name)


def all_events() -> Notes:
    """Return an observer of a class that overrides every event, as the attachment asks the class."""
    events = {name: getattr(Observer, name) for name in vars(Observer) if name.startswith("on_")}
    wrapped = {name: lambda self, *args, _f=function: _f(self, *args) for name, function in events.items()}
    kind: type[Notes] = type("AllEvents", (Notes,), wrapped)
    return kind()


def weight_step() -> None:
    """Take one step of any optimizer."""
    torch.optim.SGD([weight(1)], lr=0.1).step()


def fp16_step(parameter: nn.Parameter, optimizer: Optimizer, scaler: GradScaler, schedule: Any) -> None:
    """Take one usual fp16 step."""
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.linear(torch.ones(1, 2), parameter.reshape(1, 2)).float().sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_([parameter], 1.0)
    scaler.step(optimizer)
    scaler.update()
    schedule.step()


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


def test_several_attachments_one_after_the_other() -> None:
    """Each sees its own time only."""
    parameter, first, second = weight(1), all_events(), all_events()
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    for notes, steps in ((first, 1), (second, 2)):
        with watched(notes):
            for _ in range(steps):
                optimizer.step()
    assert [notes.events.count("on_attempt_end") for notes in (first, second)] == [1, 2]


@pytest.mark.parametrize("order", ["last in, first out", "first in, first out"])
def test_two_attachments_at_once(order: str) -> None:
    """Both see each event once; whoever goes first leaves the other one working, and torch ends as it was."""
    parameter, notes = weight(1, 1), [all_events(), all_events()]
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    schedule = lr_scheduler.StepLR(optimizer, 1)
    attachments = [Attachment([n], 1) for n in notes]
    fp16_step(parameter, optimizer, GradScaler("cpu", init_scale=2.0), schedule)
    seen_by_both = [list(n.events) for n in notes]
    leaving, staying = (0, 1) if order.startswith("first") else (1, 0)
    attachments[leaving].detach()
    torch.nn.utils.clip_grad_norm_([parameter], 1.0)
    attachments[staying].detach()
    assert seen_by_both[0] == seen_by_both[1]
    assert [notes[i].events.count("on_clip") for i in (leaving, staying)] == [1, 2]


def test_detaching_twice_is_harmless() -> None:
    """The second time there is nothing left to undo."""
    attachment = Attachment([all_events()], 1)
    attachment.detach()
    attachment.detach()


def test_somebody_elses_wrapper_on_top_stays_in_place() -> None:
    """What was put over ours is not ours to take away; ours is without effect below it."""
    notes, original = all_events(), torch.nn.utils.clip_grad_value_
    attachment = Attachment([notes], 1)
    ours = torch.nn.utils.clip_grad_value_
    theirs = functools.partial(ours)
    torch.nn.utils.clip_grad_value_ = theirs
    try:
        attachment.detach()
        assert torch.nn.utils.clip_grad_value_ is theirs
        parameter = weight(1)
        parameter.grad = torch.ones(1)
        torch.nn.utils.clip_grad_value_([parameter], 1.0)
        assert notes.events == []
    finally:
        torch.nn.utils.clip_grad_value_ = original


class Broken(Observer):
    """Raises at its first event."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def on_optimizer_step(self, optimizer: Optimizer) -> None:
        """Fail."""
        raise self.error


def test_an_observer_that_raises_steps_aside_with_a_note() -> None:
    """Training goes on, the others go on, and the summary says who left and why."""
    parameter, notes = weight(1), all_events()
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    with watched(Broken(ValueError("no such thing")), notes) as attachment:
        for _ in range(3):
            optimizer.step()
        assert attachment.summary()["observer_notes"] == [
            "Broken stepped aside in on_optimizer_step: ValueError: no such thing"
        ]
    assert notes.events.count("on_optimizer_step") == 3


def test_an_interrupt_is_nobodys_note() -> None:
    """Ctrl-C inside an observer ends the training as it should."""
    optimizer = torch.optim.SGD([weight(1)], lr=0.1)
    with watched(Broken(KeyboardInterrupt())), pytest.raises(KeyboardInterrupt):
        optimizer.step()


def test_an_error_of_the_users_own_passes_through() -> None:
    """What a model or an optimizer raises is raised unchanged, and the next step is observed again."""

    class Failing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise LookupError("theirs")

    optimizer, notes = torch.optim.SGD([weight(1)], lr=0.1), all_events()
    with watched(notes):
        with pytest.raises(LookupError, match="theirs"):
            Failing()(torch.ones(1))
        with pytest.raises(RuntimeError, match="does not require grad"):
            torch.ones(1).sum().backward()
        optimizer.step()
    assert notes.events[-1] == "on_attempt_end"


class Meddler(Observer):
    """Runs torch itself inside an event, which nobody else shall see."""

    def on_optimizer_step(self, optimizer: Optimizer) -> None:
        """Run a model, switch modes, clip and step."""
        model = nn.Linear(1, 1)
        model.eval()
        model(torch.ones(1, 1))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        torch.optim.SGD(model.parameters(), lr=0.1).step()


def test_what_an_observer_does_itself_is_not_observed() -> None:
    """Its calls are nobody's events, and no attempt."""
    notes, optimizer = all_events(), torch.optim.SGD([weight(1)], lr=0.1)
    with watched(Meddler(), notes) as attachment:
        optimizer.step()
        assert attachment.notes == []
        assert attachment.attempts == 1
    assert notes.events == ["on_optimizer_step", "on_optimizer_stepped", "on_attempt_end"]


def test_observers_see_no_gradients_enabled() -> None:
    """What an observer computes in a sampled attempt builds no graph."""
    enabled = []

    class Look(Observer):
        def on_backward(self, losses: list[Tensor]) -> None:
            enabled.append(torch.is_grad_enabled())

    with watched(Look()):
        weight(1).sum().backward()
    assert enabled == [False]


def test_a_read_gives_each_record_once() -> None:
    """Samples of all observers come together, and the next read is empty."""

    class Sample(Observer):
        def __init__(self) -> None:
            self.left = [{"step": 2, "y": 3}, {"step": 1, "x": 2}]

        def on_attempt_end(self, step: int) -> None:
            """Listen, so that there is something to read."""

        def read(self) -> list[dict[str, Any]]:
            found, self.left = self.left, []
            return found

    with watched(Sample(), Sample()) as attachment:
        weight_step()
        assert attachment.read() == [{"step": 1, "x": 2}, {"step": 1, "x": 2}, {"step": 2, "y": 3}, {"step": 2, "y": 3}]
        assert attachment.read() == []


def test_numbers_of_one_step_come_in_one_record() -> None:
    """A record for each step holds what all observers sampled in it."""

    class One(Observer):
        def on_attempt_end(self, step: int) -> None:
            self.step = step

        def read(self) -> list[dict[str, Any]]:
            return [{"step": self.step, type(self).__name__: 1}]

    class Other(One):
        pass

    with watched(One(), Other()) as attachment:
        weight_step()
        assert attachment.read() == [{"step": 1, "One": 1, "Other": 1}]
