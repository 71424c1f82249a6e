# mypy: allow-untyped-calls
"""Are ranges, formats and overflows of activations told as they are, and masks left in peace?"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness.observe.activations import OUTSIDE, Activations, tensors_in
from tests.observe.loops import seen, watched, weight

HALF, BF16 = torch.float16, torch.bfloat16
INF = float("inf")


class Given(nn.Module):
    """Gives what it holds, in a format, however it is wrapped."""

    def __init__(self, *values: float, dtype: torch.dtype = HALF) -> None:
        super().__init__()
        self.values, self.format = values, dtype

    def forward(self, x: Tensor) -> Tensor:
        """Return x, which is 1, times the values."""
        return (x * torch.tensor(self.values)).to(self.format)


class Wrapped(Given):
    """Gives its tensor inside a dict inside a tuple."""

    def forward(self, x: Tensor) -> Any:
        """Return ({"out": tensor},)."""
        return ({"out": super().forward(x)},)


def observer() -> Activations:
    """Return an observer that names modules by their class."""
    return Activations(lambda: 1, lambda module: type(module).__name__)


def one_pass(*modules: nn.Module, loss: float = 1.0) -> None:
    """Run each module once on a parameter, and begin a backward pass at this loss."""
    x = weight(1.0)
    for module in modules:
        module(x)
    (x.sum() * loss).backward()


@pytest.mark.parametrize(
    ("values", "used"),
    [((32752.0, 1.0), 0.5), ((65504.0,), 1.0), ((0.0,), 0.0), ((-65504.0, 65.504), 0.001), ((INF, 1.0), INF)],
)
def test_the_range_used_is_exact(values: tuple[float, ...], used: float) -> None:
    """The largest number over 65504; the most negative one is what masks are made of."""
    found = seen(observer(), lambda: one_pass(Given(*values)))
    assert found["activation_range_used"] == pytest.approx(used, rel=1e-3)


def test_bf16_has_the_range_of_fp32() -> None:
    """What fills fp16 is nothing in bf16."""
    assert seen(observer(), lambda: one_pass(Given(65504.0, dtype=BF16)))["activation_range_used"] < 1e-30


def test_full_formats_have_no_range_to_use() -> None:
    """In fp32 the share is missing, not 0."""
    assert seen(observer(), lambda: one_pass(Given(1.0, dtype=torch.float32)))["activation_range_used"] is None


def test_outputs_inside_containers_are_seen() -> None:
    """A dict in a tuple is looked into; integers are left out."""
    assert seen(observer(), lambda: one_pass(Wrapped(32752.0)))["activation_range_used"] == 0.5
    assert [
        t.dtype for t in tensors_in([{"a": torch.ones(1)}, (torch.ones(1, dtype=HALF), 3, None), torch.arange(2)])
    ] == [
        torch.float32,
        HALF,
    ]


def test_an_overflow_counts_when_the_loss_is_lost() -> None:
    """The first module with an output that is not finite is named, with its step."""
    found = seen(observer(), lambda: one_pass(Given(1.0), Given(INF), Wrapped(INF), loss=float("nan")))
    assert (found["overflow_module"], found["overflow_step"]) == ("Given", 1)
    assert found["activation_range_used"] == INF


@pytest.mark.parametrize("value", [INF, -INF, float("nan")])
def test_an_output_that_does_no_harm_is_no_overflow(value: float) -> None:
    """A mask of -inf, or a padding row that nobody uses, leaves the loss finite."""
    found = seen(observer(), lambda: one_pass(Given(value)))
    assert (found["overflow_module"], found["overflow_step"]) == ("", 0)


def test_a_mask_does_not_hide_the_overflow_behind_it() -> None:
    """Among outputs of one lost pass +inf and NaN come before -inf."""
    found = seen(observer(), lambda: one_pass(Given(-INF), Wrapped(INF), loss=INF))
    assert found["overflow_module"] == "Wrapped"


def test_a_loss_that_overflows_by_itself_is_told_as_outside() -> None:
    """All outputs are finite and the loss is not: what overflowed is in no module."""
    assert seen(observer(), lambda: one_pass(Given(1.0), loss=INF))["overflow_module"] == OUTSIDE


def test_a_lost_loss_without_16_bit_numbers_is_no_overflow() -> None:
    """fp32 has no range to leave: the loss is lost for another reason."""
    assert seen(observer(), lambda: one_pass(Given(1.0, dtype=torch.float32), loss=INF))["overflow_module"] == ""


def test_the_pass_of_each_loss_is_judged_alone() -> None:
    """An output of one pass is not blamed for the loss of the next."""

    def train() -> None:
        one_pass(Given(INF))
        one_pass(Wrapped(1.0), loss=INF)

    assert seen(observer(), train)["overflow_module"] == OUTSIDE


def test_formats_of_training_and_evaluation_are_apart() -> None:
    """The fewest mantissa bits of each: fp16 has 10, bf16 has 7, fp32 has 23."""
    linear = nn.Linear(1, 1)

    def train() -> None:
        one_pass(linear, Given(1.0))
        with torch.no_grad():
            one = torch.ones(1)
            Given(1.0, dtype=BF16)(one)
            linear.bfloat16()(one.bfloat16())

    found = seen(observer(), train)
    assert (found["train_output_bits"], found["eval_output_bits"]) == (10, 7)
    assert (found["train_weight_bits"], found["eval_weight_bits"]) == (23, 7)
    assert found["train_formats"] == "float16,float32"


@pytest.mark.parametrize(
    ("train", "evaluation", "named"),
    [(torch.float32, BF16, "Given"), (HALF, BF16, "Given"), (BF16, torch.float32, ""), (BF16, BF16, "")],
)
def test_a_module_that_is_coarser_in_evaluation_is_named(
    train: torch.dtype, evaluation: torch.dtype, named: str
) -> None:
    """Finer or equal is fine, also under training in 16 bits."""
    module = Given(1.0, dtype=train)

    def loop() -> None:
        one_pass(module)
        module.format = evaluation
        with torch.no_grad():
            module(torch.ones(1))

    assert seen(observer(), loop)["coarser_eval_module"] == named


def test_a_module_that_holds_others_is_looked_at_as_a_whole() -> None:
    """What a residual sum gives is no leaf's output, and overflows all the same."""

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Given(60000.0)

        def forward(self, x: Tensor) -> Tensor:
            once: Tensor = self.inner(x)
            return once + once

    assert seen(observer(), lambda: one_pass(Residual(), loss=INF))["overflow_module"] == "Residual"


@pytest.mark.parametrize(("enabled", "formats"), [(True, "bfloat16,float32"), (False, "float32")])
def test_an_autocast_region_counts_as_a_format(enabled: bool, formats: str) -> None:
    """A model without modules that gives fp32 computes in bf16 all the same."""

    def train() -> None:
        with torch.autocast("cpu", dtype=BF16, enabled=enabled):
            one_pass(Given(1.0, dtype=torch.float32))

    assert seen(observer(), train)["train_formats"] == formats


def test_an_autocast_region_of_evaluation_is_no_training_format() -> None:
    """Without gradients it says nothing about training."""

    def evaluate() -> None:
        with torch.no_grad(), torch.autocast("cpu", dtype=BF16):
            pass

    assert seen(observer(), evaluate)["train_formats"] == ""


def test_half_weights_count_as_a_format() -> None:
    """A layer that hides its half weights behind an fp32 output computes in half."""

    class Hidden(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.to(self.weight.dtype)).float()

    assert seen(observer(), lambda: one_pass(Hidden(1, 1).half()))["train_formats"] == "float16,float32"


def test_each_sampled_step_has_its_record() -> None:
    """One record a step with the range that it used."""
    steps = iter([1, 2])
    watcher = Activations(lambda: next(steps), lambda module: "")
    with watched(watcher) as attachment:
        one_pass(Given(32752.0))
        one_pass(Given(65504.0))
        assert attachment.read() == [
            {"step": 1, "activation_range_used": 0.5},
            {"step": 2, "activation_range_used": 1.0},
        ]
