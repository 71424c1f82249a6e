"""Handwritten digits with a small convolutional network."""

from __future__ import annotations

from torch import nn

from harness.workloads import _digits
from harness.workloads.base import Workload

CHANNELS = {"tiny": 8, "small": 16, "large": 512}


def build(size: str) -> Workload:
    """Return the workload; the first layer has 8, 16 or 512 channels."""
    channels = CHANNELS[size]
    train, val = _digits.splits()
    model = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, channels, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(channels, 2 * channels, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * channels, 10),
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
