# mypy: allow-untyped-calls
"""Are norm, zero share and non-finite share of the gradients exact, in any loop?"""

from __future__ import annotations

import math
from threading import Thread

import pytest
import torch
from torch import nn
from torch.amp import GradScaler

from harness.observe.base import ELEMENTS, dense, picked
from harness.observe.gradients import Gradients, total_norm
from tests.observe.loops import loss_that, scaled_step, seen, step_with, watched, weight


def test_norm_and_zero_share_are_exact() -> None:
    """Gradients 3, 0, 4, 0 have norm 5, and half of them are zero."""
    optimizer = torch.optim.SGD([weight(1, 1), weight(1, 1)], lr=0.1)
    found = seen(Gradients(), lambda: step_with(optimizer, [3, 0], [4, 0]))
    assert found == {
        "attempted_steps": 1,
        "optimizer_steps": 1,
        "grad_norm_median": 5.0,
        "zero_grad_share": 0.5,
        "missing_grad_share": 0.0,
        "unreached_weight_share": 0.0,
        "partial_grad_share": 0.0,
        "nonfinite_grad_share": 0.0,
        "lost_backward_share": None,
        "grad_elements": 4,
        "fp16_floor_share": 0.0,
    }


def test_summary_is_the_lower_median_and_the_largest_non_finite_share() -> None:
    """Of norms 1, 2, 3, 4 the lower median is 2; one step of four with one inf of two elements gives 0.5."""
    optimizer = torch.optim.SGD([weight(1, 1)], lr=0.0)

    def train() -> None:
        for norm in (1.0, 2.0, 3.0, math.inf):
            step_with(optimizer, [norm, 0])

    found = seen(Gradients(), train)
    assert (found["grad_norm_median"], found["nonfinite_grad_share"]) == (2.0, 0.5)


def test_one_nan_does_not_hide_the_median() -> None:
    """NaN sorts after every number: the median of 1, NaN, 2 is 2."""
    optimizer = torch.optim.SGD([weight(1)], lr=0.0)

    def train() -> None:
        for norm in (1.0, math.nan, 2.0):
            step_with(optimizer, [norm])

    assert seen(Gradients(), train)["grad_norm_median"] == 2.0


def test_missing_gradients_are_counted_by_elements() -> None:
    """Three of four trainable elements have no gradient at all."""
    optimizer = torch.optim.SGD([weight(1), weight(1, 1, 1)], lr=0.1)
    found = seen(Gradients(), lambda: step_with(optimizer, [2], None))
    assert (found["missing_grad_share"], found["zero_grad_share"], found["grad_norm_median"]) == (0.75, 0.0, 2.0)


def test_gradients_that_come_at_times_are_not_missing() -> None:
    """Of an expert that is chosen in one of two steps the gradient is neither missing nor always there."""
    optimizer = torch.optim.SGD([weight(1), weight(1), weight(1, 1)], lr=0.1)

    def train() -> None:
        step_with(optimizer, [1], [1], None)
        step_with(optimizer, [1], None, None)

    found = seen(Gradients(), train)
    assert (found["missing_grad_share"], found["partial_grad_share"]) == (0.5, 0.25)


def test_frozen_parameters_are_not_missing() -> None:
    """A parameter that needs no gradient is none of the trainable ones."""
    frozen = weight(1, 1, 1)
    frozen.requires_grad_(False)
    optimizer = torch.optim.SGD([weight(1), frozen], lr=0.1)
    assert seen(Gradients(), lambda: step_with(optimizer, [2], None))["missing_grad_share"] == 0.0


def test_sparse_gradients_count_what_they_store() -> None:
    """Of a sparse gradient the stored values are looked at, added up where an index comes twice."""
    table = nn.Embedding(10, 2, sparse=True)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)

    def train() -> None:
        (table(torch.tensor([3, 3])) * torch.tensor([1.0, 0.0])).sum().backward()
        optimizer.step()

    found = seen(Gradients(), train)
    assert (found["grad_norm_median"], found["zero_grad_share"]) == (2.0, 0.5)


def test_each_optimizer_is_an_attempt_of_its_own() -> None:
    """Two optimizers in one loop give two samples a round, each with its own parameters only."""
    one, other = torch.optim.SGD([weight(1)], lr=0.1), torch.optim.SGD([weight(1, 1)], lr=0.1)
    with watched(Gradients()) as attachment:
        step_with(one, [3])
        step_with(other, [0, 4])
        samples = attachment.read()
    assert [(s["step"], s["grad_norm"], s["zero_grad_share"]) for s in samples] == [(1, 3.0, 0.0), (2, 4.0, 0.5)]


def test_a_skipped_step_tells_its_non_finite_share_only() -> None:
    """Where the scaler skips, the optimizer uses no gradient, so there is no norm."""
    parameter, scaler = weight(1, 1), GradScaler("cpu", init_scale=2.0)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    with watched(Gradients()) as attachment:
        scaled_step(scaler, optimizer, loss_that(parameter, overflows=True))
        samples = attachment.read()
    assert samples == [{"step": 1, "nonfinite_grad_share": 1.0}]


def test_lbfgs_without_gradients_yet_gives_no_sample() -> None:
    """A closure computes the gradients inside the step: nothing is made up before the first."""
    parameter = weight(3.0)
    optimizer = torch.optim.LBFGS([parameter], max_iter=1)

    def closure() -> float:
        optimizer.zero_grad()
        loss = parameter.square().sum()
        loss.backward()
        return loss.item()

    with watched(Gradients()) as attachment:
        optimizer.step(closure)
        first = attachment.read()
        optimizer.step(closure)
        assert [first, attachment.notes] == [[], []]
        assert len(attachment.read()) == 1


def test_nothing_sampled_is_missing_not_zero() -> None:
    """Without any step every number but the counts of steps is None."""
    found = seen(Gradients(), lambda: None)
    assert (found.pop("attempted_steps"), found.pop("optimizer_steps")) == (0, 0)
    assert set(found.values()) == {None}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_every_format_has_its_norm(dtype: torch.dtype) -> None:
    """Norms of half and double gradients come out in fp32."""
    norm = total_norm([torch.tensor([3.0, 4.0], dtype=dtype)])
    assert (float(norm), norm.dtype) == (5.0, torch.float32)


def test_large_tensors_are_thinned_evenly() -> None:
    """Of many elements about ELEMENTS are looked at, always the same ones."""
    large = torch.arange(3 * ELEMENTS, dtype=torch.float32)
    assert torch.equal(picked([large]), large[::3])
    assert picked([]).numel() == 0


def test_dense_leaves_the_gradient_alone() -> None:
    """The stored values of a sparse gradient are a copy; the gradient stays as it was."""
    grad = torch.sparse_coo_tensor(torch.tensor([[1, 1]]), torch.tensor([1.0, 2.0]), (4,), check_invariants=True)
    assert dense(grad).tolist() == [3.0]
    assert grad._nnz() == 2


@pytest.mark.parametrize(
    ("dtype", "grads", "share"),
    [
        (torch.float16, [2.0**-24, 3 * 2.0**-24, 1.0, 0.0], 2 / 3),
        (torch.float16, [2.0**-24 / 65536, 1.0, 1.0, 0.0], 0.0),
        (torch.bfloat16, [1.3 * 2.0**-24, 3.3 * 2.0**-24, 1.0, 0.0], 0.0),
        (torch.bfloat16, [2.0**-24, 3 * 2.0**-24, 1.0, 0.0], 2 / 3),
    ],
)
def test_gradients_at_the_floor_of_fp16(dtype: torch.dtype, grads: list[float], share: float) -> None:
    """The last numbers of fp16 before 0 count; what was scaled and unscaled, or never in fp16, lies between them."""
    parameter = weight(1, 1, 1, 1)
    optimizer = torch.optim.SGD([parameter], lr=0.1)

    def train() -> None:
        with torch.autocast("cpu", dtype=dtype):
            step_with(optimizer, grads)

    assert seen(Gradients(), train)["fp16_floor_share"] == pytest.approx(share)


class TwoHeads(nn.Module):
    """One head learns, one is computed for nothing, and one does not run."""

    def __init__(self) -> None:
        super().__init__()
        self.learns, self.detached, self.idle = (nn.Linear(2, 1, bias=False) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the loss sees."""
        out: torch.Tensor = self.learns(x) + self.detached(x).detach()
        return out


def test_weights_that_ran_and_got_no_gradient() -> None:
    """A third of the weights ran for nothing; a head that does not run is missing too, but is not unreached."""
    model = TwoHeads()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()

    found = seen(Gradients(), train)
    assert found["missing_grad_share"] == pytest.approx(2 / 3)
    assert found["unreached_weight_share"] == pytest.approx(1 / 3)


def test_gradients_of_another_thread_are_left_alone() -> None:
    """Autograd writes them without Python's lock: only a thread that steps an optimizer looks at what it left."""
    ours, theirs = weight(1.0), weight(1.0)
    optimizer = torch.optim.SGD([ours], lr=0.1)
    observer = Gradients()
    observer.is_fp16 = True

    def train() -> None:
        step_with(optimizer, [1.0])
        thread = Thread(target=lambda: theirs.sum().backward())
        thread.start()
        thread.join()
        assert "lost_backward_share" not in observer.current
        ours.sum().backward()
        assert "lost_backward_share" in observer.current

    seen(observer, train)
