"""The data that the digit workloads share: scikit-learn's 1,797 real handwritten 8 x 8 digits."""

from __future__ import annotations

import functools

import torch
from torch import Tensor
from torch.nn import functional

from harness.workloads.base import TensorPairs

NUM_TRAIN = 1437
"""80 % of 1,797, as in a usual five-fold split."""


@functools.cache
def splits() -> tuple[TensorPairs, TensorPairs]:
    """Return (train, validation): inputs (N, 64) in [0, 1], targets (N,); the split never depends on the run's seed."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    inputs = torch.as_tensor(digits.data, dtype=torch.float32)[order] / 16.0
    targets = torch.as_tensor(digits.target, dtype=torch.int64)[order]
    return (
        TensorPairs(inputs[:NUM_TRAIN], targets[:NUM_TRAIN]),
        TensorPairs(inputs[NUM_TRAIN:], targets[NUM_TRAIN:]),
    )


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy in fp32, as a loss under autocast should be."""
    return functional.cross_entropy(logits.float(), targets)


def accuracy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return 1.0 for each sample that is classified right, shape (batch,)."""
    return (logits.argmax(-1) == targets).float()


def shift(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """Move the whole batch by up to one pixel in each direction."""
    rows, columns = (int(n) for n in torch.randint(-1, 2, (2,), generator=generator))
    return inputs.view(-1, 8, 8).roll((rows, columns), dims=(1, 2)).flatten(1)
