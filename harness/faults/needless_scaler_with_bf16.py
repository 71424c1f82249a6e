"""A live loss scaler in a bf16 run: bf16 has the exponent range of fp32, so scaling costs time and gains nothing."""

from __future__ import annotations

from typing import Any

from torch.amp import GradScaler

from harness.faults.base import Context, Fault


def change(scaler: Any, context: Context) -> Any:
    """Return a live scaler whatever the precision."""
    return GradScaler(
        scaler._device,  # noqa: SLF001 - GradScaler has no public name for its device
        init_scale=context.spec.init_scale,
        growth_interval=context.spec.growth_interval,
    )


FAULT = Fault(
    part="scaler",
    change=change,
    observation="needless_scaled_share",
    direction="up",
    bound=0.5,
    bound_origin="an exact count: attempts under a live scale although no product is computed in fp16",
)
