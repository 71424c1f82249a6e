# mypy: allow-untyped-calls
"""Is the first operation named that leaves the fp16 range, and nothing that is meant to be infinite?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from harness.observe.overflows import MAX_PENDING, Overflows, on_host
from harness.observe.reductions import Reductions

HALF = torch.float16


def site_of(compute: Callable[[Tensor], object], value: float = 300.0, dtype: torch.dtype = HALF) -> str:
    """Return the operation that overflows when a vector of this value is computed with."""
    observer = Reductions()
    with observer:
        compute(torch.full((4,), value, dtype=dtype))
    return str(observer.summary()["overflow_site"]).partition(" at ")[0]


def chain(x: Tensor) -> Tensor:
    """Square, then go on with what is infinite by then."""
    return ((x * x) + 1).sqrt().relu()


OVERFLOWS: dict[str, Callable[[Tensor], object]] = {
    "mul": chain,
    "exp": lambda x: x.exp(),
    "mul_": lambda x: (x + 0).mul_(1000),
    "_to_copy": lambda x: (x * 100).float().mul(10).to(HALF),
    "sum": lambda x: x.sum() + (x * 200).sum(),
    "div": lambda x: x / torch.zeros(4, dtype=HALF),
    "_softmax": lambda x: nn.functional.softmax(x * -1e4, 0),
    "native_layer_norm": lambda x: nn.functional.layer_norm(x * -1e4, (4,)),
}

MEANT: dict[str, Callable[[Tensor], object]] = {
    "mask": lambda x: x.masked_fill(torch.tensor([True, False, True, False]), float("-inf")).softmax(0),
    "negative": lambda x: x * -1000.0,
    "given": lambda x: x + torch.tensor(float("inf"), dtype=HALF),
    "in_range": lambda x: x * 200,
    "filled": lambda x: torch.full((2,), float("inf"), dtype=HALF) + torch.zeros(2, dtype=HALF),
    "filled_by_a_mask": lambda x: x.masked_fill(x > 0, float("inf")),
    "all_masked": lambda x: torch.logsumexp(x.masked_fill(x > 0, float("-inf")), 0),
}


@pytest.mark.parametrize("operation", OVERFLOWS)
def test_the_first_operation_is_named(operation: str) -> None:
    """What goes on computing with inf is not blamed."""
    assert site_of(OVERFLOWS[operation]) == operation


def test_a_row_without_a_softmax_is_found_in_fp32_too() -> None:
    """Autocast may cast the scores up before: what was -inf by then has no softmax in any format."""
    assert site_of(lambda x: (x * -1e4).float().softmax(0)) == "_softmax"
    assert site_of(lambda x: (x * -1e4).float().log_softmax(0)) == "_log_softmax"
    assert site_of(lambda x: x.float().softmax(0)) == ""


@pytest.mark.parametrize("kind", MEANT)
def test_masks_and_given_infinities_are_no_overflow(kind: str) -> None:
    """-inf is what masks are made of, and what is infinite in the input did not overflow here."""
    assert site_of(MEANT[kind]) == ""


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_other_formats_are_not_looked_at(dtype: torch.dtype) -> None:
    """bf16 has the range of fp32: what overflows there overflows everywhere."""
    assert site_of(lambda x: (x * 1e38) * 1e38, dtype=dtype) == ""


def test_an_overflow_that_comes_late_is_found() -> None:
    """Operations are looked at in batches; the first one over all batches is kept."""
    observer = Overflows(lambda: "model.py:7")
    func = torch.ops.aten.mul.Tensor
    for number in range(MAX_PENDING + 10):
        observer.look(
            func, (torch.ones(1),), torch.tensor([1.0 if number < MAX_PENDING + 5 else float("inf")], dtype=HALF)
        )
    observer.settle()
    assert observer.site == "mul at model.py:7"


def test_scalars_come_to_the_host_in_order() -> None:
    """One transfer for all of them, and none without any."""
    assert on_host([torch.tensor(1.0), torch.tensor(0.0)]) == [1.0, 0.0]
    assert on_host([]) == []
