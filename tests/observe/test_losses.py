# mypy: allow-untyped-calls
"""Is every loss that is not a number counted, without holding on to anything?"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from harness.observe import losses
from harness.observe.losses import Losses, scalar
from tests.observe.loops import seen, watched, weight


def backward_of(values: list[float]) -> None:
    """Start a backward pass at each of these values."""
    for value in values:
        (weight(1.0).sum() * value).backward()


@pytest.mark.parametrize(
    ("values", "share", "first"),
    [
        ([1.0, 2.0], 0.0, 0),
        ([1.0, float("nan")], 0.5, 2),
        ([float("inf")], 1.0, 1),
        ([0, float("-inf"), 0, 0], 0.25, 2),
    ],
)
def test_share_and_first_are_exact(values: list[float], share: float, first: int) -> None:
    """inf, -inf and NaN count alike, over all backward passes."""
    found = seen(Losses(), lambda: backward_of(values))
    assert (found["nonfinite_loss_share"], found["nonfinite_loss_first"]) == (share, first)


def test_without_a_backward_pass_it_is_missing() -> None:
    """Nothing seen is None, not 0."""
    assert seen(Losses(), lambda: None)["nonfinite_loss_share"] is None


def test_torch_autograd_backward_is_seen_too() -> None:
    """The function behind Tensor.backward counts once for all the tensors that it begins at."""
    found = seen(Losses(), lambda: torch.autograd.backward([weight(1).sum(), weight(2).sum()]))
    assert found["nonfinite_loss_share"] == 0.0


def test_a_vector_counts_by_any_of_its_elements() -> None:
    """A backward pass from a vector is lost when one element is."""
    vector = weight(1.0, 2.0) * torch.tensor([1.0, float("inf")])
    found = seen(Losses(), lambda: vector.backward(torch.ones(2)))
    assert found["nonfinite_loss_share"] == 1.0


def test_a_checkpointed_block_is_no_loss() -> None:
    """Recomputing a block starts a backward pass inside another one."""
    x = weight(1.0)

    def train() -> None:
        out: Tensor = torch.utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=True)
        out.sum().backward()

    observer = Losses()
    seen(observer, train)
    assert observer.count == 1


def test_no_large_memory_is_kept() -> None:
    """A loss that is a view of something large is replaced by 0 or NaN; a loss of its own is kept as it is."""
    large, own = torch.zeros(1000), torch.tensor(3.0)
    assert scalar(large[0]).untyped_storage().nbytes() == 4
    assert scalar(own).data_ptr() == own.data_ptr()


def test_long_runs_on_a_device_are_counted_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most MAX_PENDING losses wait, however rarely somebody reads."""
    monkeypatch.setattr(losses, "can_read", lambda _loss: False)
    observer = Losses()
    with watched(observer, interval=10**6):
        backward_of([1.0] * (losses.MAX_PENDING + 3))
    assert (len(observer.pending), observer.count) == (3, losses.MAX_PENDING)


def test_on_the_host_nothing_is_kept() -> None:
    """A loss that can be read at once is counted at once."""
    observer = Losses()
    with watched(observer, interval=10**6):
        backward_of([1.0, float("nan"), 1.0])
    assert (observer.pending, observer.count, observer.nonfinite) == ([], 3, 1)


def test_a_generator_of_losses_is_left_alone() -> None:
    """It can be read once only, and that is for torch."""
    parameter = weight(1.0)
    assert seen(Losses(), lambda: torch.autograd.backward(loss for loss in [parameter.sum()]))  # type: ignore[arg-type]
    assert parameter.grad is not None
