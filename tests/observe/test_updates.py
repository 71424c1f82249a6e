# mypy: allow-untyped-calls
"""Are stalled updates and number formats exact?"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from harness.observe.attach import FIRST_SAMPLES
from harness.observe.updates import Updates
from tests.observe.loops import seen, step_with, watched, weight

BF16 = torch.bfloat16


def test_an_update_below_half_a_spacing_stalls() -> None:
    """In bf16 the number below 1 is 1 - 2**-8: lr 1e-3 leaves 1 as it is, and moves 1e-4."""
    optimizer = torch.optim.SGD([weight(1.0, 1.0, 1.0, 1e-4, dtype=BF16)], lr=1e-3)
    found = seen(Updates(), lambda: step_with(optimizer, [1, 1, 1, 1]))
    assert (found["stalled_update_share"], found["stalled_half_share"]) == (0.75, 0.75)
    assert (found["half_weight_share"], found["weight_dtypes"]) == (1.0, "bfloat16")


def test_half_weights_are_judged_apart_from_full_ones() -> None:
    """One stalled bf16 weight beside three moving fp32 weights: a quarter stalls, of the half ones all."""
    optimizer = torch.optim.SGD([weight(1, dtype=BF16), weight(1, 1, 1)], lr=1e-3)
    found = seen(Updates(), lambda: step_with(optimizer, [1], [1, 1, 1]))
    assert (found["stalled_update_share"], found["stalled_half_share"]) == (0.25, 1.0)
    assert (found["half_weight_share"], found["weight_dtypes"]) == (0.25, "bfloat16,float32")


def test_without_half_weights_their_share_is_zero() -> None:
    """Nothing in 16 bits can stall there, and that is known rather than missing."""
    optimizer = torch.optim.SGD([weight(1)], lr=1e-3)
    assert seen(Updates(), lambda: step_with(optimizer, [1]))["stalled_half_share"] == 0.0


def test_a_zero_gradient_is_no_stall() -> None:
    """A weight that gets no gradient cannot move; only those with one count."""
    optimizer = torch.optim.SGD([weight(1, 1)], lr=0.1)
    found = seen(Updates(), lambda: step_with(optimizer, [0, 1]))
    assert found["stalled_update_share"] == 0.0


def test_a_group_that_is_switched_off_is_no_stall() -> None:
    """A learning rate of 0 freezes half weights on purpose."""
    frozen, moving = weight(1, dtype=BF16), weight(1)
    optimizer = torch.optim.SGD([{"params": [frozen], "lr": 0.0}, {"params": [moving], "lr": 0.1}])
    found = seen(Updates(), lambda: step_with(optimizer, [1], [1]))
    assert (found["stalled_update_share"], found["stalled_half_share"]) == (0.0, None)


def test_the_median_step_counts() -> None:
    """A single stalled step among three is not the rule of the run."""
    optimizer = torch.optim.SGD([weight(1, dtype=BF16)], lr=1.0)

    def train() -> None:
        for grad in (0.5, 1e-3, 0.25):
            step_with(optimizer, [grad])

    assert seen(Updates(), train)["stalled_half_share"] == 0.0


@pytest.mark.parametrize(("dtype", "share"), [(torch.float32, 0.0), (BF16, 1.0)])
def test_state_has_the_format_of_its_weights(dtype: torch.dtype, share: float) -> None:
    """Adam's moments follow the parameter; its step counter is a single number and does not count."""
    optimizer = torch.optim.Adam([weight(1, 1, dtype=dtype)], lr=0.1)
    assert seen(Updates(), lambda: step_with(optimizer, [1, 1]))["half_state_share"] == share


def test_sparse_gradients_are_left_out() -> None:
    """A sparse gradient says nothing about the rows that it does not hold."""
    table = nn.Embedding(4, 2, sparse=True)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)

    def train() -> None:
        table(torch.tensor([1])).sum().backward()
        optimizer.step()

    assert seen(Updates(), train)["stalled_update_share"] is None


def test_several_optimizers_are_followed() -> None:
    """Formats are counted over the weights of all optimizers, each once."""
    half, full = weight(1, dtype=BF16), weight(1, 1, 1)
    one, other = torch.optim.SGD([half], lr=0.1), torch.optim.SGD([full], lr=0.1)

    def train() -> None:
        for _ in range(2):
            step_with(one, [1])
            step_with(other, [1, 1, 1])

    assert seen(Updates(), train)["half_weight_share"] == 0.25


@pytest.mark.parametrize(("grads", "expected"), [((1.0, 1.0, 1.0), 0), ((1.0, math.inf, 1.0), 3)])
def test_the_first_step_from_lost_weights_is_told(grads: tuple[float, ...], expected: int) -> None:
    """An infinite gradient in step 2 loses the weight; step 3 is the first that begins without it."""
    optimizer = torch.optim.SGD([weight(1)], lr=0.1)

    def train() -> None:
        for grad in grads:
            step_with(optimizer, [grad])

    assert seen(Updates(), train)["lost_weights_step"] == expected


def test_samples_carry_their_step() -> None:
    """With a long interval the first attempts are sampled that are known to matter, and no other."""
    optimizer = torch.optim.SGD([weight(1)], lr=0.1)
    with watched(Updates(), interval=100) as attachment:
        for _ in range(FIRST_SAMPLES[1] + 3):
            step_with(optimizer, [1])
        samples = attachment.read()
    assert samples == [{"step": step, "stalled_update_share": 0.0} for step in FIRST_SAMPLES[:2]]


@pytest.mark.parametrize(
    ("dtype", "grads", "share"),
    [
        (torch.float16, [1e-4, 1.0], 0.5),
        (torch.float16, [1e-2, 1.0], 0.0),
        (torch.float16, [0.0, 1.0], 0.0),
        (BF16, [1e-4, 1.0], 0.0),
        (torch.float32, [1e-4, 1.0], 0.0),
    ],
)
def test_second_moments_that_are_flushed_to_zero(dtype: torch.dtype, grads: list[float], share: float) -> None:
    """0.001 * 1e-4**2 is below 6e-8, the smallest number of fp16 (case A10); the first moment of 1e-5 is not."""
    optimizer = torch.optim.AdamW([weight(1, 1, dtype=dtype)], lr=1e-3)
    assert seen(Updates(), lambda: step_with(optimizer, grads))["flushed_moment_share"] == share


def bf16_steps(round_update: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Move a bf16 weight of 1 by 2**-10 in each of 50 steps: an eighth of the spacing above it."""
    parameter = weight(*[1.0] * 64, dtype=BF16)
    optimizer = torch.optim.SGD([parameter], lr=0.0, weight_decay=0.0)
    optimizer.param_groups[0]["lr"] = 2.0**-40
    for _ in range(50):
        step_with(optimizer, [-1.0] * 64)
        with torch.no_grad():
            parameter.copy_(round_update(parameter.float() + 2.0**-10))


def at_random(exact: torch.Tensor) -> torch.Tensor:
    """Round up with the probability of the part that is cut off."""
    noise = torch.rand(exact.shape, generator=torch.Generator().manual_seed(int(exact.sum() * 1e4))) * 2.0**-7
    return ((exact + noise) / 2.0**-7).floor() * 2.0**-7


@pytest.mark.parametrize(("rounding", "stays"), [(lambda exact: exact, True), (at_random, False)])
def test_what_arrives_later_does_not_stall_between_samples(rounding: Callable[..., torch.Tensor], stays: bool) -> None:
    """Rounded to the nearest, the weights never move; rounded at random nearly all of them have after 30 steps."""
    found = seen(Updates(), lambda: bf16_steps(rounding), interval=100)
    assert found["stalled_half_share"] == 1.0
    assert (found["stalled_half_between"] > 0.9) == stays
    assert (found["stalled_half_between"] < 0.3) == (not stays)
