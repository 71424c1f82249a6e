# mypy: allow-untyped-calls
"""Is an evaluation in a coarser format measured against fp32, and left as it is?"""

from __future__ import annotations

import copy
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from harness.observe import evaluations
from harness.observe.evaluations import Evaluations
from harness.observe.reductions import Reductions
from tests.observe.evaluated import BF16, Evaluate, Offset, cast, gap_of, half_copy, observer_of, samples, train
from tests.observe.loops import watched


def swapped(model: nn.Module, x: Tensor) -> None:
    """Evaluate with rounded weights in the place of the model's own."""
    functional_call(model, {name: p.to(BF16) for name, p in model.named_parameters()}, (x.to(BF16),))


def exported(model: nn.Module, x: Tensor) -> None:
    """Evaluate an fp32 model whose weights come from a file in fp8."""
    served = copy.deepcopy(model)
    served.load_state_dict({name: p.to(torch.float8_e5m2).float() for name, p in model.state_dict().items()})
    served(x)


def scaled(model: nn.Module, x: Tensor) -> None:
    """Evaluate an fp32 model whose weights went through 8-bit numbers, each tensor with a scale of its own."""
    served = copy.deepcopy(model)
    for parameter in served.parameters():
        step = parameter.data.abs().max() / 15
        parameter.data = (parameter.data / step).round() * step
    served(x)


def wrapped(model: nn.Module, x: Tensor) -> None:
    """Evaluate a copy inside another module."""
    nn.Sequential(copy.deepcopy(model), nn.Identity()).to(BF16)(x.to(BF16))


def in_inference_mode(model: nn.Module, x: Tensor) -> None:
    """Evaluate as torch recommends it."""
    with torch.inference_mode():
        half_copy(model, x)


@pytest.mark.parametrize("evaluate", [cast, half_copy, swapped, wrapped, in_inference_mode])
def test_a_gap_is_measured(evaluate: Evaluate) -> None:
    """bf16 has steps of 4 at 1000: nothing is left of numbers between 0 and 1; at 0 it is as good as fp32."""
    assert (gap_of(evaluate) or 0.0) > 0.9
    assert 0.0 < (gap_of(evaluate, Offset(0.0)) or 0.0) < 0.02


def test_the_gap_is_a_share_of_the_spread() -> None:
    """A module whose weight is rounded from 1 + 2**-8 to 1 in bf16 is off by 2**-8 of what it gives."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1 + 2.0**-8)
    x = torch.tensor([[-1.0], [1.0]])
    gap = gap_of(lambda model, _: half_copy(model, x), model)
    assert gap == pytest.approx(2.0**-8 / (1 + 2.0**-8), rel=0.02)


@pytest.mark.parametrize("evaluate", [exported, scaled])
def test_weights_that_were_rounded_are_compared_with_the_trained_ones(evaluate: Evaluate) -> None:
    """The evaluation itself is in fp32, but its weights have one digit."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 64), nn.Linear(64, 64))
    gap = gap_of(evaluate, model)
    assert gap is not None
    assert 0.01 < gap < 0.5


def test_weights_that_were_trained_apart_are_no_rounding() -> None:
    """A baseline on 8-bit weights of its own is as good as its weights."""
    torch.manual_seed(0)
    model, other = (nn.Sequential(nn.Linear(1, 64), nn.Linear(64, 64)) for _ in range(2))
    assert gap_of(lambda _, x: scaled(other, x), model) is None


@pytest.mark.parametrize("trained", [torch.float32, BF16])
def test_an_evaluation_as_in_training_is_not_repeated(trained: torch.dtype) -> None:
    """Without a coarser format there is no gap, and no cost."""
    model = Offset()
    with (
        watched(Evaluations(lambda: 1, Reductions().casts)) as attachment,
        torch.autocast("cpu", BF16, trained == BF16),
    ):
        train(model)
        with torch.no_grad():
            model(samples())
        assert observer_of(attachment).total == 0
        assert observer_of(attachment).summary() == {"eval_output_gap": None}


def test_what_the_training_does_too_is_taken_off() -> None:
    """Trained under autocast, evaluated in a copy with coarser weights: the network was never better than that."""

    def evaluate(model: nn.Module, x: Tensor) -> None:
        with torch.autocast("cpu", enabled=False):
            half_copy(model, x)

    with torch.autocast("cpu", BF16):
        assert (gap_of(evaluate) or 0.0) < 0.1


@pytest.mark.parametrize(("times", "repeated"), [(1, 8), (6, 32), (17, 45)])
def test_only_some_batches_are_repeated(times: int, repeated: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first 8 ones of evaluations 1 to 4, 8, 16, ..., until the budget of the run is spent."""
    counted: list[int] = []
    own = Evaluations._gap

    def counting(observer: Evaluations, *args: Any) -> float | None:
        counted.append(1)
        return own(observer, *args)

    def evaluate(model: nn.Module, x: Tensor) -> None:
        for _ in range(10):
            cast(model, x)

    monkeypatch.setattr(evaluations, "TOTAL", 45)
    monkeypatch.setattr(Evaluations, "_gap", counting)
    gap_of(evaluate, times=times)
    assert len(counted) == repeated


def test_a_teacher_is_not_judged() -> None:
    """What runs without gradients in every step is a part of the training."""
    teacher, student, casts = Offset().to(BF16).eval(), nn.Linear(1, 1), Reductions().casts
    with watched(Evaluations(lambda: attachment.attempts + 1, casts)) as attachment:
        for _ in range(4):
            train(student)
            with torch.no_grad():
                teacher(samples().to(BF16))
        observer = observer_of(attachment)
        assert observer.total
        assert observer.summary() == {"eval_output_gap": None}


def test_a_copy_does_not_outlive_its_evaluation() -> None:
    """The observer keeps no module alive, and no weights."""
    served: list[weakref.ref[nn.Module]] = []

    def evaluate(model: nn.Module, x: Tensor) -> None:
        copied = copy.deepcopy(model).to(BF16)
        served.append(weakref.ref(copied))
        copied(x.to(BF16))
        del copied
        assert served[0]() is None

    assert gap_of(evaluate) is not None
    assert len(served) == 1
