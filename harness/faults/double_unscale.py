"""The gradients are divided by the loss scale twice: once by unscale_, once by hand."""

from __future__ import annotations

from typing import Any

from harness.faults.base import Context, Fault


def change(update: Any, context: Context) -> Any:
    """Divide once more after everything is prepared."""
    prepare = update.prepare

    def prepared_twice() -> None:
        prepare()
        scale = update.scaler.get_scale()
        for parameter in update.parameters:
            if parameter.grad is not None:
                parameter.grad.div_(scale)

    update.prepare = prepared_twice
    return update


FAULT = Fault(
    part="update",
    change=change,
    observation="step_norm_ratio",
    direction="down",
    bound=0.5,
    bound_origin=(
        "1 within rounding when nothing touches clipped gradients; 1/scale when unscaled twice: 1.5e-5 at 2**16"
    ),
)
