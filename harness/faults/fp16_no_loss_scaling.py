"""fp16 without loss scaling: gradients below 6e-8 become zero.

The smallest positive fp16 number is 2**-24 = 6e-8 (IEEE 754 binary16); what is smaller flushes to zero.
"""

from __future__ import annotations

from typing import Any

from torch.amp import GradScaler

from harness.faults.base import Context, Fault


def change(scaler: Any, context: Context) -> Any:
    """Return a scaler that passes every call through."""
    return GradScaler(scaler._device, enabled=False)  # noqa: SLF001 - GradScaler has no public name for its device


FAULT = Fault(
    part="scaler",
    change=change,
    observation="zero_grad_excess",
    direction="up",
    bound=0.05,
    bound_origin="warning level of a shadow-run check calibrated on deep fp16 nets: 0.000 with scaling, 0.70 without",
)
