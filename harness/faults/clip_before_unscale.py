"""Gradients are clipped while they still carry the loss scale: the true norm falls to threshold / scale."""

from __future__ import annotations

from typing import Any

from harness.faults.base import Context, Fault


def change(update: Any, context: Context) -> Any:
    """Clip first; the scaler unscales inside its step."""
    update.prepare = update.clip
    return update


FAULT = Fault(
    part="update",
    change=change,
    observation="clips_before_unscale_share",
    direction="up",
    bound=0.5,
    bound_origin="an exact count: 0 in the right order, 1 in the wrong one",
)
