"""The validation metric is the mean over every sample, exact, whatever it is computed in."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness.engine.parallel import Ranks
from harness.engine.precision import Autocast
from harness.engine.validation import Validation
from harness.errors import WorkloadError
from harness.workloads.base import TensorPairs, Workload
from tests.running import Launcher

PLAIN = Autocast("cpu", None)


def validation(
    values: Tensor, metric: Callable[[Any, Any], Any] | None = None, autocast: Autocast = PLAIN
) -> Validation:
    """Return the validation of a model that returns its input, by default by the value itself."""
    pairs = TensorPairs(values, torch.zeros(len(values)))
    workload = Workload(
        model=nn.Linear(1, 1),
        train_data=pairs,
        val_data=pairs,
        loss=nn.functional.mse_loss,
        metric=metric or (lambda output, targets: output),
    )
    return Validation(workload, torch.device("cpu"), autocast, Ranks(0, 0, 1, launched=False), 256)


@pytest.mark.parametrize("count", [1, 255, 256, 257, 1000])
def test_mean_is_over_all_samples(count: int) -> None:
    """Not over batches: the last, smaller one has its own weight."""
    values = torch.arange(count, dtype=torch.float32)
    assert validation(values)(nn.Identity()) == values.double().mean().item()


def test_sum_is_exact_where_a_narrow_one_stops() -> None:
    """bf16 holds consecutive integers up to 256 only."""
    values = torch.ones(5000, dtype=torch.bfloat16)
    assert validation(values)(nn.Identity()) == 1.0


def test_mean_of_a_batch_counts_for_its_samples() -> None:
    """256 samples of one batch and 44 of the other: the weighted mean is the mean over samples."""
    values = torch.arange(300, dtype=torch.float32)
    measured = validation(values, lambda output, targets: output.mean())
    assert measured(nn.Identity()) == pytest.approx(values.mean().item())


def test_standard_error_is_that_of_the_mean() -> None:
    """From the spread over the samples."""
    values = torch.tensor([0.0, 1.0] * 200)
    measured = validation(values)
    measured(nn.Identity())
    assert measured.standard_error == pytest.approx(0.5 / math.sqrt(400))


def test_standard_error_of_batch_means_counts_batches() -> None:
    """256 equal copies of a batch's mean are one observation."""
    values = torch.cat([torch.zeros(256), torch.ones(256)])
    measured = validation(values, lambda output, targets: output.mean())
    measured(nn.Identity())
    assert measured.standard_error == pytest.approx(0.5 / math.sqrt(2))


@pytest.mark.parametrize("metric", [None, lambda output, targets: output.mean()])
def test_single_observation_has_no_standard_error(metric: Any) -> None:
    """One number has no spread; nan is no number that decides anything."""
    measured = validation(torch.ones(1), metric)
    measured(nn.Identity())
    assert math.isnan(measured.standard_error)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_metric_that_is_not_finite_stays_so(value: float) -> None:
    """A mean that hides one lost sample would be a lie."""
    measured = validation(torch.tensor([1.0, value]))
    assert str(measured(nn.Identity())) == str(value)
    assert math.isnan(measured.standard_error)


def test_model_is_evaluated_in_eval_mode_and_trains_on() -> None:
    """Without gradients, and back in training mode also after an error."""
    model = nn.Dropout(0.9)
    modes: list[tuple[bool, bool]] = []

    def metric(output: Tensor, _targets: Tensor) -> Tensor:
        modes.append((model.training, torch.is_grad_enabled()))
        return output

    assert validation(torch.ones(4), metric)(model) == 1.0
    assert (modes, model.training) == ([(False, False)], True)
    with pytest.raises(WorkloadError):
        validation(torch.ones(4), lambda output, targets: None)(model)
    assert model.training


def test_evaluation_has_the_precision_of_the_training() -> None:
    """The metric sees what the model computed in its format."""
    seen: list[torch.dtype] = []

    def metric(output: Tensor, _targets: Tensor) -> Tensor:
        seen.append(output.dtype)
        return output[:, 0]

    validation(torch.ones(4, 1), metric, Autocast("cpu", torch.bfloat16))(nn.Linear(1, 1))
    assert seen == [torch.bfloat16]


@pytest.mark.parametrize("workload", ["digits_mlp", "digits_cnn"])
def test_two_ranks_validate_as_one(launched: Launcher, workload: str) -> None:
    """The same weights on one rank and on two have the same metric: each sample counts once."""
    one = launched(workload=workload, max_steps=1, lr=1e-12)
    two = launched(workload=workload, max_steps=1, lr=1e-12, devices=2)
    assert one.value("val_metric") == two.value("val_metric")
    assert one.value("val_standard_error") == pytest.approx(two.value("val_standard_error"))


def test_fp32_reference_is_there_when_everything_is_observed(launched: Launcher) -> None:
    """The final weights once more in fp32: close to the reported metric."""
    run = launched(precision="bf16", observe="full", max_steps=30)
    assert run.value("val_metric_fp32") == pytest.approx(run.value("val_metric"), abs=0.02)
    assert launched(precision="bf16").value("val_metric_fp32") is None
