"""Handwritten digits with a three-layer perceptron."""

from __future__ import annotations

from torch import nn

from harness.workloads import _digits
from harness.workloads.base import Workload

WIDTHS = {"tiny": 64, "small": 256, "large": 8192}


def build(size: str) -> Workload:
    """Return the workload; the hidden width is 64, 256 or 8192."""
    width = WIDTHS[size]
    train, val = _digits.splits()
    model = nn.Sequential(
        nn.Linear(64, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, 10),
    )
    return Workload(
        model=model,
        train_data=train,
        val_data=val,
        loss=_digits.loss,
        metric=_digits.accuracy,
        metric_name="accuracy",
        augment=_digits.shift,
    )
