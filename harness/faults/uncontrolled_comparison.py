"""The two runs of a comparison differ in more than the declared part: another seed as well."""

from __future__ import annotations

from typing import Any

import msgspec

from harness.faults.base import Context, Fault


def change(spec: Any, context: Context) -> Any:
    """Use another seed."""
    return msgspec.structs.replace(spec, seed=spec.seed + int(context.severity))


FAULT = Fault(
    part="spec",
    change=change,
    observation="undeclared_differences",
    direction="up",
    bound=0.5,
    bound_origin="an exact count: a controlled comparison has none",
)
