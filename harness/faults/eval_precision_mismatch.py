"""Training is right, but an fp8 copy of the weights whose scale was lost is evaluated: small weights become zero.

float8_e4m3 holds nothing below 2**-9 (OCP 8-bit floating point specification). Severity is the base-2
logarithm of the factor by which the weights are too small for it.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch

from harness.faults.base import Context, Fault


def change(validation: Any, context: Context) -> Any:
    """Evaluate a bf16 copy whose weights went through fp8 at the wrong scale."""
    scale = 2.0**context.severity

    def evaluated(model: Any) -> Any:
        coarse = copy.deepcopy(model)
        for parameter in coarse.parameters():
            parameter.data = (parameter.data / scale).to(torch.float8_e4m3fn).to(torch.float32) * scale
        return coarse.to(torch.bfloat16)

    validation.evaluated = evaluated
    validation.autocast = dataclasses.replace(validation.autocast, dtype=torch.bfloat16)
    return validation


FAULT = Fault(
    part="validation",
    change=change,
    observation="eval_gap",
    direction="up",
    bound=0.02,
    bound_origin="healthy bf16 and fp16 runs of the built-in workloads: at most 0.0002; one of 360 samples is 0.003",
    severity=7,
)
