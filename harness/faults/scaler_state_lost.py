"""The checkpoint lacks the scaler's state: after a resume the loss scale starts over."""

from __future__ import annotations

from typing import Any

from harness.faults.base import Context, Fault


def change(checkpoint: Any, context: Context) -> Any:
    """Leave the scaler out."""
    complete = checkpoint.state

    def state() -> dict[str, Any]:
        return {**complete(), "scaler": {}}

    checkpoint.state = state
    return checkpoint


FAULT = Fault(
    part="checkpoint",
    change=change,
    observation="scale_shift_at_resume",
    direction="up",
    bound=0.5,
    bound_origin="half a doubling: the scale moves in factors of two and a restored one does not move at all",
)
