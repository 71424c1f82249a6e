"""In which number format does a run compute, and how is its loss scaled?"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch.amp import GradScaler

from harness.config import RunSpec

AS_IT_IS = nullcontext()

COMPUTE_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Autocast:
    """Matrix products in ``dtype`` with fp32 master weights; None computes in the weights' own dtype."""

    device_type: str
    dtype: torch.dtype | None

    def __call__(self) -> AbstractContextManager[object]:
        """Return the context of one forward pass."""
        if self.dtype is None:
            return AS_IT_IS
        return torch.autocast(self.device_type, dtype=self.dtype)


def make_autocast(spec: RunSpec, device_type: str) -> Autocast:
    """Return the forward context that the precision asks for."""
    return Autocast(device_type, COMPUTE_DTYPES.get(spec.precision))


def make_scaler(spec: RunSpec, device_type: str) -> GradScaler:
    """Dynamic loss scaling for fp16; disabled, so that each call passes through, for every other precision."""
    return GradScaler(
        device_type,
        init_scale=spec.init_scale,
        growth_interval=spec.growth_interval,
        enabled=spec.precision == "fp16",
    )


def set_matmul_format(precision: str) -> None:
    """Let fp32 products use TF32 Tensor Cores only when tf32 was asked for."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
