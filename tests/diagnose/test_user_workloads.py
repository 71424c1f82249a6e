"""Is a user's own healthy workload left in peace, however odd, and his own fault found, however written?"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from harness.config import RunSpec, changed
from harness.diagnose.diagnosis import diagnose
from harness.diagnose.finding import Diagnosis
from harness.diagnose.observations import Observations
from harness.experiment.store import RunStore
from tests.diagnose.users import faulty, healthy_habits, healthy_models, healthy_tokens
from tests.gallery import TINY

PRECISIONS = ("fp32", "bf16", "fp16")

OWN: dict[str, dict[str, Any]] = {
    "loaded_in_bf16": {"lr": 1e-4},
    "cast_with_its_inputs": {"lr": 1e-4},
    "one_layer_in_bf16": {"lr": 1e-4},
    "evaluated_in_fp8": {"max_steps": 60, "lr": 1e-2},
    "easy_labels": {"max_steps": 200, "lr": 3e-2},
    "mask_of_inf": {"growth_interval": 5},
    "one_class_is_never_allowed": {"growth_interval": 5},
    "dead_units": {"growth_interval": 5},
    "sparse_experts": {"batch_size": 16, "lr": 0.05, "seed": 5, "max_steps": 60},
}
"""What single workloads need: a usual fine-tuning rate, time to learn, or a scale that is often tried higher."""

CANNOT = {
    ("lstm", "fp16"): "torch has no fp16 LSTM on a CPU",
    ("tiny_gradients", "fp16"): "1e-12 needs fp32's exponents",
}

FOUND: dict[tuple[str, ...], tuple[str, tuple[str, ...]]] = {
    ("loaded_in_bf16", "one_layer_in_bf16"): ("low_precision_weights", ("bf16", "fp16")),
    ("cast_with_its_inputs",): ("low_precision_weights", PRECISIONS),
    ("cast_to_half",): ("low_precision_weights", ("fp32", "bf16")),
    ("unscaled_residual_sums", "a_big_constant", "a_mask_of_1e9"): ("fp16_activation_overflow", ("fp16",)),
    ("exp_by_hand", "squares_in_the_loss", "squares_that_overflow"): ("fp16_activation_overflow", ("fp16",)),
    ("loss_summed_before_the_mean", "norm_that_overflows"): ("low_precision_reduction", ("fp16",)),
    ("loss_added_up_sample_by_sample",): ("low_precision_reduction", ("bf16",)),
    ("metric_that_adds_in_place",): ("low_precision_reduction", ("bf16",)),
    ("metric_that_counts_over_batches",): ("low_precision_reduction", ("bf16", "fp16")),
    ("answers_in_bf16", "answers_beyond_fp16", "evaluated_in_fp8"): ("eval_precision_mismatch", PRECISIONS),
}
"""Faulty workloads -> the cause, and the precisions in which it is one."""


def factories(module: Any) -> list[str]:
    """Return the workloads of a file: its own functions without parameters that return one."""
    found = inspect.getmembers(module, inspect.isfunction)
    return [
        name
        for name, function in found
        if function.__module__ == module.__name__
        and inspect.signature(function).return_annotation == "Workload"
        and not inspect.signature(function).parameters
    ]


def spec_of(module: Any, name: str, precision: str) -> RunSpec:
    """Return a short run of a workload in its file."""
    given = {"workload": f"{Path(module.__file__)}:{name}", "precision": precision, "batch_size": 32, "lr": 3e-3}
    return changed(RunSpec(), TINY | {"max_steps": 30} | given | OWN.get(name, {}))


def diagnosed(store: RunStore, module: Any, name: str, precision: str) -> Diagnosis:
    """Diagnose a workload against its fp32 run."""
    run = store.get(spec_of(module, name, precision))
    assert run.state in {"completed", "diverged"}, run.message
    assert run.summary["observer_notes"] == []
    return diagnose(Observations(run, store.get(spec_of(module, name, "fp32"))))


HEALTHY = [(module, name) for module in (healthy_tokens, healthy_models, healthy_habits) for name in factories(module)]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("module", "name"), [pytest.param(module, name, id=name) for module, name in HEALTHY])
def test_a_healthy_workload_has_no_finding(module: Any, name: str, precision: str, store: RunStore) -> None:
    """A false alarm is worse than a miss."""
    if (name, precision) in CANNOT:
        pytest.skip(CANNOT[name, precision])
    result = diagnosed(store, module, name, precision)
    assert [(finding.cause, finding.summary) for finding in result.findings] == []
    assert result.status == "healthy", result.missing


@pytest.mark.parametrize(
    ("name", "precision", "cause"),
    [
        pytest.param(name, precision, cause, id=f"{name}-{precision}")
        for names, (cause, precisions) in FOUND.items()
        for name in names
        for precision in precisions
    ],
)
def test_a_fault_in_other_words_is_found(name: str, precision: str, cause: str, store: RunStore) -> None:
    """The first finding is the cause."""
    result = diagnosed(store, faulty, name, precision)
    assert result.findings, result
    assert result.findings[0].cause == cause


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        pytest.param(name, precision, id=f"{name}-{precision}")
        for names, (cause, precisions) in FOUND.items()
        for name in names
        for precision in PRECISIONS
        if precision not in precisions and cause != "low_precision_weights"
    ],
)
def test_the_same_code_is_no_fault_where_the_format_holds_it(name: str, precision: str, store: RunStore) -> None:
    """What leaves the range of fp16 is fine in bf16, and what bf16 cannot count is fine in fp32."""
    result = diagnosed(store, faulty, name, precision)
    assert [(finding.cause, finding.summary) for finding in result.findings] == []


def test_half_weights_under_a_loss_scaler_are_refused(store: RunStore) -> None:
    """Torch cannot unscale gradients in fp16; the run says so before its first step, in one sentence."""
    run = store.get(spec_of(faulty, "cast_to_half", "fp16"))
    assert run.state == "refused"
    assert "trainable weights are float16" in run.message
    assert "drop .half()" in run.message


def test_every_faulty_workload_is_asked_for() -> None:
    """No function of the file is forgotten."""
    assert sorted(name for names in FOUND for name in names) == sorted(factories(faulty))
