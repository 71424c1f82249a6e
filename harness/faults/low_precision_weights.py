"""Weights and optimizer state in bf16 without fp32 master weights: small updates round away.

bf16 keeps 8 significant bits, so an update below 2**-9 of a weight changes nothing.
"""

from __future__ import annotations

from typing import Any

import torch

from harness.faults.base import Context, Fault


def change(model: Any, context: Context) -> Any:
    """Hold the model in bf16."""
    return model.to(torch.bfloat16)


FAULT = Fault(
    part="model",
    change=change,
    observation="stalled_half_share",
    direction="up",
    bound=0.30,
    bound_origin="pure bf16 AdamW regression at lr 1e-4: 0.91 against 5e-5 with fp32 weights",
)
