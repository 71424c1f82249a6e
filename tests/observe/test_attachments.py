# mypy: allow-untyped-calls
"""Do attachments change nothing, disturb nobody, survive what goes wrong, and leave nothing behind?"""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer, lr_scheduler

from harness.observe.attach import Attachment
from harness.observe.base import Observer
from tests.observe.attached import all_events, fp16_step, weight_step
from tests.observe.loops import watched, weight


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
