"""The validation metric is added up value by value in the compute format: bf16 stops counting at 256.

A number format with p significant bits holds consecutive integers up to 2**p: 256 for bf16, 2048 for fp16.
"""

from __future__ import annotations

from typing import Any

import torch

from harness.faults.base import Context, Fault


def change(validation: Any, context: Context) -> Any:
    """Accumulate in the format of the products."""
    dtype = validation.autocast.dtype or torch.float32

    def total(model: Any) -> torch.Tensor:
        score = torch.zeros((), dtype=dtype, device=validation.device)
        for inputs, targets in validation.loader:
            for value in validation.values(model, inputs, targets).to(dtype):
                score = score + value
        return torch.cat([score.double().reshape(1), exact(model)[1:]])

    exact = validation.total
    validation.total = total
    return validation


FAULT = Fault(
    part="validation",
    change=change,
    observation="reduction_error",
    direction="up",
    bound=0.01,
    bound_origin="five worst-case bf16 roundings (5 x 2**-9): more than one reduction in wider precision can lose",
)
