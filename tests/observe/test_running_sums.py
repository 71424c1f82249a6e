# mypy: allow-untyped-calls
"""Are long sums in 16 bits followed exactly, however Python code writes them, and is nothing else taken for one?"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from harness.observe.running_sums import RunningSums
from tests.observe.loops import seen, watched

BF16 = torch.bfloat16

LARGE = 0.05


def plus(numbers: list[Tensor]) -> Tensor:
    """Add by a new tensor for each sum."""
    total = torch.zeros((), dtype=numbers[0].dtype)
    for number in numbers:
        total = total + number
    return total


def plus_in_place(numbers: list[Tensor]) -> Tensor:
    """Add to one tensor."""
    total = torch.zeros((), dtype=numbers[0].dtype)
    for number in numbers:
        total += number
    return total


WAYS: list[Callable[[list[Tensor]], object]] = [plus, plus_in_place, sum]


def error_of(train: Callable[[], object]) -> float:
    """Return the error that the observer saw."""
    found: float = seen(RunningSums(), train)["running_sum_error"]
    return found


def ones(count: int, dtype: torch.dtype = BF16) -> list[Tensor]:
    """Return as many ones."""
    return [torch.ones((), dtype=dtype) for _ in range(count)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_bf16_stops_counting_at_256(way: Callable[[list[Tensor]], object], mode: type) -> None:
    """300 ones give 256, an error of 44/300, in every way to write it."""
    with mode():
        assert error_of(lambda: way(ones(300))) == pytest.approx(44 / 300, rel=1e-3)


@pytest.mark.parametrize("way", WAYS)
def test_fp32_and_short_sums_are_left_alone(way: Callable[[list[Tensor]], object]) -> None:
    """fp32 counts that far; three parts of a loss are no sum."""
    assert error_of(lambda: way(ones(300, torch.float32))) == 0.0
    assert error_of(lambda: way([torch.tensor(v, dtype=BF16) for v in (1000.0, 1.0, 1.0)])) == 0.0


def test_a_sum_that_begins_again_is_another_one() -> None:
    """Set to zero after each epoch, five sums of 50 are exact; one of 250 would be too, but not one of 500."""

    def train(*, resets: bool) -> None:
        total = torch.zeros((), dtype=BF16)
        for count, number in enumerate(ones(500)):
            if resets and count % 50 == 0:
                total.zero_()
            total += number

    assert error_of(lambda: train(resets=True)) == 0.0
    assert error_of(lambda: train(resets=False)) > LARGE


def test_the_line_that_adds_is_told() -> None:
    """It is where the user has to change something."""
    assert "test_running_sums.py" in seen(RunningSums(), lambda: plus(ones(300)))["running_sum_site"]


def test_subclasses_and_transforms_are_left_alone() -> None:
    """A subclass is not asked for anything, and inside vmap numbers stand for many."""
    asked = []

    class Asked(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            asked.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    one = torch.ones((), dtype=BF16).as_subclass(Asked)
    batch = torch.ones(4, dtype=BF16)
    with watched(RunningSums()) as attachment:
        asked.clear()
        one + one
        assert asked == ["add"]
        assert torch.vmap(lambda x: functools.reduce(lambda a, b: a + b, [x] * 20))(batch).tolist() == [20.0] * 4
        assert attachment.notes == []


def test_tensor_is_left_as_it_was() -> None:
    """Nothing stays on the class, and nothing is put on it again when a compilation begins."""
    before = set(vars(torch.Tensor))
    with watched(RunningSums()):
        assert set(vars(torch.Tensor)) > before
        torch.compile(lambda x: x + 1, backend="eager")
        assert set(vars(torch.Tensor)) == before
    assert set(vars(torch.Tensor)) == before
