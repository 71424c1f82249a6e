# mypy: allow-untyped-calls
"""Does a module that is called once more leave everything as it is?"""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness.observe.evaluations import Evaluations
from harness.observe.reductions import Reductions
from tests.observe.evaluated import BF16, Evaluate, Offset, cast, gap_of, samples, train
from tests.observe.loops import watched


class Talking(Offset):
    """Prints, logs, and draws a random number."""

    def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
        """Return about x, 8 times."""
        print("said")  # noqa: T201 - what a user's module does
        logging.getLogger("user").warning("logged")
        torch.rand(1)
        return super().forward(x, scale=scale)


def test_nothing_is_told_or_drawn_twice(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """Hooks, prints, logs, counters and random numbers are those of the calls that the user made."""
    heard: list[str] = []
    model = Talking()
    model.register_forward_hook(lambda *_: heard.append("hook"))
    model.inner.register_forward_pre_hook(lambda *_: heard.append("hook of a part"))
    drawn = []
    for run in (gap_of, alone):
        torch.manual_seed(0)
        run(cast, model)
        drawn.append(torch.rand(1).item())
    assert heard.count("hook") == heard.count("hook of a part") == model.calls == 4
    assert capsys.readouterr().out.splitlines() == ["said"] * 4
    assert len(caplog.records) == 4
    assert drawn[0] == drawn[1]


def alone(evaluate: Evaluate, model: nn.Module) -> None:
    """Train and evaluate without an observer."""
    train(model)
    with torch.no_grad():
        evaluate(model, samples())


class Fragile(Offset):
    """Raises when it is asked to."""

    def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
        """Return about x, unless the scale is 0."""
        if scale == 0:
            raise ValueError("scale")
        return super().forward(x, scale=scale)


def test_an_exception_of_the_user_is_survived() -> None:
    """What comes after a call that never came back is still the outermost one."""

    def evaluate(model: nn.Module, x: Tensor) -> None:
        with pytest.raises(ValueError, match="scale"):
            nn.Sequential(model)[0](x, scale=0)
        cast(model, x)

    assert (gap_of(evaluate, Fragile()) or 0.0) > 0.9


class Unique(Offset):
    """Cannot be copied."""

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("no copies")


def test_a_copy_that_fails_is_noted() -> None:
    """The observer steps aside, and the user's evaluation gives what it gives."""
    model = Unique()
    with watched(Evaluations(lambda: 1, Reductions().casts)) as attachment:
        train(model)
        with torch.no_grad(), torch.autocast("cpu", BF16):
            output = model(samples())
        assert output.shape == (64, 8)
        (note,) = attachment.notes
    assert note == "Evaluations stepped aside in on_called: TypeError: no copies"


class Outside(Offset):
    """Runs a module that it does not hold."""

    def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
        """Return what the other makes of it."""
        output: Tensor = OUTER(super().forward(x, scale=scale))
        return output


OUTER = nn.Linear(8, 8)


@pytest.mark.parametrize(
    "model",
    [Outside(), nn.Sequential(Offset(0.0), nn.Dropout(0.5))],
    ids=["calls what is not its own", "gives other numbers each time"],
)
def test_what_cannot_be_repeated_is_not_judged(model: nn.Module) -> None:
    """Neither is anything noted."""

    def evaluate(model: nn.Module, x: Tensor) -> None:
        model.train()
        cast(model, x)

    assert gap_of(evaluate, model) is None


class Cache:
    """Remembers what it is given, as a cache of keys and values."""

    def __init__(self) -> None:
        self.seen: list[Tensor] = []


class Cached(nn.Module):
    """Puts its input into a cache that it was called with."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Offset()

    def forward(self, x: Tensor, cache: Cache | None = None) -> Any:
        """Return about x, 8 times."""
        if cache is not None:
            cache.seen.append(x)
        return self.inner(x)


def test_arguments_that_a_call_could_change_are_not_passed_on() -> None:
    """A cache of keys and values would get every key twice."""
    cache = Cache()

    def evaluate(model: nn.Module, x: Tensor) -> None:
        with torch.autocast("cpu", BF16):
            model(x, cache)

    assert gap_of(evaluate, Cached()) is None
    assert len(cache.seen) == 1
