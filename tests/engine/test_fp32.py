# mypy: allow-untyped-calls
"""Is a model evaluated entirely in fp32, whatever format its own code asks for?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from harness.engine.fp32 import InFp32, fp32_copy, widened

THIRD = torch.tensor([1 / 3])

ASKING: dict[str, Callable[[Tensor], Tensor]] = {
    "half": lambda x: x.half(),
    "bfloat16": lambda x: x.bfloat16(),
    "to": lambda x: x.to(torch.float16),
    "to_other": lambda x: x.to(torch.zeros(1, dtype=torch.bfloat16)),
    "fp8": lambda x: x.to(torch.float8_e4m3fn).to(torch.float32),
    "type": lambda x: x.type(torch.float16),
    "sum": lambda x: x.sum(dtype=torch.float16).reshape(1),
    "zeros": lambda x: x + torch.zeros(1, dtype=torch.float16),
}


@pytest.mark.parametrize("way", ASKING)
def test_every_way_to_ask_for_fewer_bits_gives_fp32(way: str) -> None:
    """Casts, factories and accumulators: a third stays a third."""
    with InFp32():
        found = ASKING[way](THIRD)
    assert found.dtype == torch.float32
    assert torch.equal(found, THIRD)


def test_an_autocast_region_gives_fp32() -> None:
    """The region asks for casts, and the casts keep their bits."""
    layer, x = nn.Linear(8, 8), torch.randn(4, 8)
    with InFp32(), torch.autocast("cpu", dtype=torch.bfloat16):
        found = layer(x)
    assert torch.equal(found, layer(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
def test_other_formats_stay(dtype: torch.dtype) -> None:
    """What has the bits of fp32, or none, is left alone."""
    assert widened(dtype) == dtype
    with InFp32():
        assert THIRD.to(dtype).dtype == dtype


def test_the_copy_has_fp32_weights_and_the_model_keeps_its_own() -> None:
    """Floating-point weights and buffers alike; integers stay integers."""
    model = nn.Sequential(nn.Linear(2, 2).bfloat16(), nn.BatchNorm1d(2).half())
    formats = {value.dtype for value in fp32_copy(model).state_dict().values()}
    assert formats == {torch.float32, torch.int64}
    assert {value.dtype for value in model.state_dict().values()} == {torch.bfloat16, torch.float16, torch.int64}


def test_outside_nothing_is_changed() -> None:
    """When the evaluation is over a half is a half again."""
    with InFp32():
        pass
    assert THIRD.half().dtype == torch.float16
