"""A fixed loss scale that is too large: scaled gradients overflow fp16 and every step is skipped.

Severity is the base-2 logarithm of the scale.
"""

from __future__ import annotations

from typing import Any

from torch.amp import GradScaler

from harness.faults.base import Context, Fault


class FixedScaler(GradScaler):
    """A scaler that never changes its scale."""

    def update(self, new_scale: Any = None) -> None:
        """Keep the scale whatever was seen."""
        super().update(new_scale=self.get_scale())


def change(scaler: Any, context: Context) -> Any:
    """Return a scaler with a fixed scale."""
    return FixedScaler(
        scaler._device,  # noqa: SLF001 - GradScaler has no public name for its device
        init_scale=2.0**context.severity,
        enabled=scaler.is_enabled(),
    )


FAULT = Fault(
    part="scaler",
    change=change,
    observation="skipped_share_late",
    direction="up",
    bound=0.2,
    bound_origin="dynamic scaling skips about one step in growth_interval (2000) once it has found its scale",
    severity=26,
)
