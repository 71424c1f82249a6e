# mypy: allow-untyped-calls
"""Is a sum that 16 bits cannot hold told from one that they can?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.observe import reductions
from harness.observe.reductions import Reductions
from tests.observe.loops import watched, weight

HALF, BF16 = torch.float16, torch.bfloat16


@contextmanager
def mode() -> Iterator[Reductions]:
    """Switch the observer on."""
    observer = Reductions()
    with observer:
        yield observer


def error_of(compute: Callable[[], Any]) -> float:
    """Return the largest error of a computation."""
    with mode() as observer:
        compute()
    return float(observer.summary()["reduction_error"])


def count_up(dtype: torch.dtype, number: int) -> Tensor:
    """Add 1 to 0 one by one."""
    total = torch.zeros((), dtype=dtype)
    for _ in range(number):
        total = total + torch.ones((), dtype=dtype)
    return total


def count_up_in_place(dtype: torch.dtype, number: int) -> Tensor:
    """Add 1 to 0 one by one into the same tensor."""
    total = torch.zeros((), dtype=dtype)
    for _ in range(number):
        total += 1
    return total


@pytest.mark.parametrize("count", [count_up, count_up_in_place])
@pytest.mark.parametrize(
    ("dtype", "number", "error"),
    [
        (BF16, 256, 0.0),
        (BF16, 320, 0.2),
        (BF16, 512, 0.5),
        (HALF, 2048, 0.0),
        (HALF, 2560, 0.2),
        (torch.float32, 320, 0.0),
    ],
)
def test_counting_stops_where_the_format_does(
    count: Callable[..., Tensor], dtype: torch.dtype, number: int, error: float
) -> None:
    """bf16 holds whole numbers up to 256 and fp16 up to 2048; what is added beyond is lost."""
    assert error_of(lambda: count(dtype, number)) == pytest.approx(error)


def test_a_running_sum_that_is_detached_is_still_followed() -> None:
    """Detaching or copying the total does not hide what it has lost."""

    def train() -> None:
        total = torch.zeros((), dtype=BF16)
        for _ in range(320):
            total = (total + weight(1.0, dtype=BF16).squeeze()).detach().clone()

    assert error_of(train) == pytest.approx(0.2)


def test_a_total_that_is_reset_starts_anew() -> None:
    """Zeroing the same tensor for the next epoch forgets the exact sum too."""

    def train() -> None:
        total = torch.zeros((), dtype=BF16)
        for _ in range(3):
            total.zero_()
            for _ in range(200):
                total += 1

    assert error_of(train) == 0.0


def test_a_few_terms_in_place_are_no_error() -> None:
    """The total is changed in place after it was looked at: what was seen then counts."""

    def train() -> None:
        total = torch.full((), 0.001, dtype=BF16)
        for term in (0.5, 0.25, 100.0):
            total += torch.tensor(term, dtype=BF16)

    assert error_of(train) < 0.004


WITHIN: dict[str, Callable[[Tensor], Any]] = {
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "mean_of_columns": lambda x: x.mean(0, keepdim=True),
    "norm": lambda x: x.norm(),
    "norm_of_rows": lambda x: torch.linalg.vector_norm(x, dim=1),
    "sum_in_fp32": lambda x: x.sum(dtype=torch.float32),
    "fp32_sum": lambda x: x.float().sum(),
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, (64,)),
    "logsumexp": lambda x: torch.logsumexp(x, 0),
}


@pytest.mark.parametrize("dtype", [HALF, BF16])
@pytest.mark.parametrize("kind", WITHIN)
def test_what_torch_adds_up_itself_is_within_one_rounding(dtype: torch.dtype, kind: str) -> None:
    """It accumulates in fp32 and rounds once, even where positive and negative values nearly cancel."""
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)).to(dtype)
    assert error_of(lambda: WITHIN[kind](x)) < 0.004


@pytest.mark.parametrize(("compute", "value"), [(torch.sum, 600.0), (torch.norm, 60000.0)])
def test_a_sum_that_leaves_the_range_has_an_infinite_error(compute: Callable[[Tensor], Any], value: float) -> None:
    """262,144 ones are too many for fp16, and so are 128 values of 600."""
    assert error_of(lambda: compute(torch.full((128,), value, dtype=HALF))) == float("inf")


def test_what_is_infinite_already_is_not_the_sums_fault() -> None:
    """The exact sum of inf is inf too."""
    assert error_of(lambda: torch.tensor([float("inf"), 1.0], dtype=HALF).sum()) == 0.0


def test_the_smallest_numbers_of_a_format_are_no_error() -> None:
    """The mean of twelve values of which one is 2**-22 is not a multiple of 2**-24, the smallest fp16 number."""
    values = torch.zeros(12, dtype=HALF)
    values[0] = 2.0**-22
    assert error_of(values.mean) == 0.0


def test_the_place_is_the_callers_line() -> None:
    """The operation and the file and line that called it, outside torch and the observers."""
    with mode() as observer:
        count_up(BF16, 300)
    operation, place = observer.summary()["reduction_site"].split(" at ")
    assert operation == "add"
    assert place.startswith("test_reductions.py:")


def test_the_backward_pass_is_left_out() -> None:
    """Sums that autograd makes are the loss scaler's business."""
    with mode() as observer:
        x = torch.full((4, 300), 300.0, dtype=HALF, requires_grad=True)
        bias = torch.zeros(300, dtype=HALF, requires_grad=True)
        (x + bias).backward(torch.full((4, 300), 30000.0, dtype=HALF))
    assert bias.grad is not None
    assert bias.grad.isinf().all()
    summary = observer.summary()
    assert (summary["reduction_error"], summary["reduction_site"], summary["overflow_site"]) == (0.0, "", "")


def test_results_are_bitwise_the_same() -> None:
    """Looking changes nothing."""
    x = torch.randn(100, generator=torch.Generator().manual_seed(0)).to(BF16)
    plain = (x.sum(), x.cumsum(0), x.norm(), count_up(BF16, 300))
    with mode():
        looked_at = (x.sum(), x.cumsum(0), x.norm(), count_up(BF16, 300))
    assert all(torch.equal(a, b) for a, b in zip(plain, looked_at, strict=True))


def test_the_coarsest_results_with_and_without_gradients() -> None:
    """fp8 has 3 mantissa bits, fp16 has 10, fp32 has 23; integers have none to tell."""
    with mode() as observer:
        x = torch.ones(2, requires_grad=True) * 2
        x.half()
        with torch.no_grad():
            torch.arange(3)
            x.to(torch.float8_e4m3fn)
    assert (observer.summary()["train_op_bits"], observer.summary()["eval_op_bits"]) == (10, 3)


def test_a_failure_inside_is_told_later_and_never_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operation gives its result; the observer steps aside with a note."""

    def broken(*_: Any) -> None:
        raise RuntimeError("no memory for float64")

    monkeypatch.setattr(Reductions, "_repeat", broken)
    observer = Reductions()
    with watched(observer) as attachment, observer:
        assert torch.ones(3, dtype=HALF).sum() == 3
        assert torch.ones(3, dtype=HALF).sum() == 3
        attachment.summary()
    assert attachment.notes == ["Reductions stepped aside in summary: RuntimeError: no memory for float64"]


def test_long_runs_are_looked_at_in_batches() -> None:
    """At most MAX_PENDING results wait, however rarely somebody reads."""
    with mode() as observer:
        for _ in range(reductions.MAX_PENDING + 5):
            torch.ones(2, dtype=HALF).sum()
        assert len(observer.pending) == 5


def test_very_large_tensors_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scratch memory is bounded: beyond the limit nothing is known, so nothing is said."""
    monkeypatch.setattr(reductions, "MAX_ELEMENTS", 100)
    assert error_of(lambda: torch.full((128,), 600.0, dtype=HALF).sum()) == 0.0


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize(
    ("dtype", "terms", "found"), [(BF16, 600, True), (torch.float32, 600, False), (BF16, 100, False)]
)
def test_a_running_sum_for_each_sample(dtype: torch.dtype, terms: int, in_place: bool, found: bool) -> None:
    """A vector that is added to six hundred times stops growing in bf16; a short chain is left alone."""
    values = torch.rand(8, terms, generator=torch.Generator().manual_seed(0)).to(dtype)
    with mode() as observer:
        total = torch.zeros(8, dtype=dtype)
        for column in range(terms):
            if in_place:
                total += values[:, column]
            else:
                total = total + values[:, column]
    assert (observer.summary()["reduction_error"] > 0.01) == found
    assert ("test_reductions.py" in observer.summary()["reduction_site"]) == (found or (dtype == BF16 and terms >= 128))
