"""Which number format computes, and which precision scales its loss."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from harness.config import RunSpec
from harness.engine.precision import make_autocast, make_scaler, set_matmul_format
from tests.running import Launcher


@pytest.fixture
def formats_restored() -> Iterator[None]:
    """Put back the formats of products."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    yield
    torch.set_float32_matmul_precision(before[0])
    torch.backends.cudnn.allow_tf32 = before[1]


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("fp32", torch.float32), ("tf32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)],
)
def test_products_have_the_format_that_was_asked_for(precision: str, dtype: torch.dtype) -> None:
    """Weights stay fp32; only products inside the context change."""
    model = nn.Linear(2, 2)
    with make_autocast(RunSpec(precision=precision), "cpu")():  # type: ignore[arg-type]
        assert model(torch.ones(1, 2)).dtype == dtype
    assert model(torch.ones(1, 2)).dtype == model.weight.dtype == torch.float32


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
def test_only_fp16_scales_its_loss(precision: str) -> None:
    """The range of the others is that of fp32."""
    spec = RunSpec(precision=precision, init_scale=8.0, growth_interval=3)  # type: ignore[arg-type]
    scaler = make_scaler(spec, "cpu")
    assert scaler.is_enabled() == (precision == "fp16")
    assert scaler.get_scale() == (8.0 if precision == "fp16" else 1.0)
    assert scaler.scale(torch.ones(())).item() == (8.0 if precision == "fp16" else 1.0)


@pytest.mark.usefixtures("formats_restored")
@pytest.mark.parametrize(("precision", "name"), [("fp32", "highest"), ("tf32", "high"), ("bf16", "highest")])
def test_tensor_cores_round_fp32_only_when_asked(precision: str, name: str) -> None:
    """Also where a run before asked for it."""
    set_matmul_format("tf32" if precision != "tf32" else "fp32")
    set_matmul_format(precision)
    assert torch.get_float32_matmul_precision() == name
    assert torch.backends.cudnn.allow_tf32 == (precision == "tf32")


def test_precisions_differ_in_numbers_and_agree_in_result(launched: Launcher) -> None:
    """Rounding is there, and small."""
    ends = {
        precision: launched(precision=precision, max_steps=40).value("loss") for precision in ("fp32", "bf16", "fp16")
    }
    assert len(set(ends.values())) == 3
    assert ends["bf16"] == pytest.approx(ends["fp32"], rel=0.05)
    assert ends["fp16"] == pytest.approx(ends["fp32"], rel=0.05)


def test_tf32_is_refused_on_the_cpu(launched: Launcher) -> None:
    """It is a number format of a GPU."""
    run = launched(precision="tf32")
    assert (run.state, "precision tf32 needs an NVIDIA GPU" in run.message) == ("refused", True)
