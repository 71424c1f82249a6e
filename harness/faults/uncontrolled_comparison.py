"""The two runs of a comparison differ in more than the declared part: one of them augments its data."""

from __future__ import annotations

from typing import Any

import msgspec

from harness.faults.base import Context, Fault


def change(spec: Any, context: Context) -> Any:
    """Switch the augmentation over."""
    return msgspec.structs.replace(spec, augment=not spec.augment)


FAULT = Fault(
    part="spec",
    change=change,
    observation="undeclared_differences",
    direction="up",
    bound=0.5,
    bound_origin="an exact count: a controlled comparison has none",
)
