"""Do two runs train the same model on samples of the same shape?"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from harness.workloads.base import Workload


def model_shape(workload: Workload) -> str:
    """Return 12 hex digits over the names and shapes of all parameters and buffers."""
    state = workload.model.state_dict()
    text = ";".join(
        f"{name}:{tuple(value.shape) if isinstance(value, Tensor) else '-'}" for name, value in state.items()
    )
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def sample_shape(workload: Workload) -> str:
    """Return the shapes of the first training sample: ``((64,), ())``."""
    return _shape(workload.train_data[0])


def _shape(value: Any) -> str:
    if isinstance(value, Tensor):
        return str(tuple(value.shape))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_shape(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(_shape(item) for item in value) + ")"
    return type(value).__name__
