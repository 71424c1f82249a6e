"""The small data sets of the workloads beside this file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from harness.workloads.base import Workload

Pair = tuple[Tensor, Tensor]

NUM_TRAIN, NUM_VAL = 512, 256

FEATURES, CLASSES, LENGTH, TOKENS, WIDTH = 16, 4, 12, 64, 32


def seeded(seed: int) -> torch.Generator:
    """Return a generator of its own, so that the data never depends on the run."""
    return torch.Generator().manual_seed(seed)


def table(scale: float = 1.0) -> Pair:
    """Return a table with four classes that a small perceptron can mostly tell apart."""
    x = torch.randn(NUM_TRAIN + NUM_VAL, FEATURES, generator=seeded(0))
    noise = 0.3 * torch.randn(len(x), CLASSES, generator=seeded(1))
    return x * scale, (x @ torch.randn(FEATURES, CLASSES, generator=seeded(2)) + noise).argmax(1)


def line(offset: float = 0.0, spread: float = 1.0) -> Pair:
    """Return a table with a number as target."""
    x, _ = table()
    return x, offset + spread * (x @ torch.randn(FEATURES, generator=seeded(3)))


def tokens() -> Pair:
    """Return rows of tokens; the first token tells the class."""
    x = torch.randint(0, TOKENS, (NUM_TRAIN + NUM_VAL, LENGTH), generator=seeded(4))
    return x, x[:, 0] % CLASSES


def perceptron(width: int = WIDTH, outputs: int = CLASSES) -> nn.Sequential:
    """Return a small perceptron."""
    return nn.Sequential(
        nn.Linear(FEATURES, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)
    )


def cross_entropy(output: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy in fp32."""
    return functional.cross_entropy(output.float(), targets)


def accuracy(output: Tensor, targets: Tensor) -> Tensor:
    """Return 1 for each sample that is classified right."""
    return (output.argmax(-1) == targets).float()


def squares(output: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error in fp32."""
    return functional.mse_loss(output.float().squeeze(1), targets)


def distance(output: Tensor, targets: Tensor) -> Tensor:
    """Return the absolute error of each sample."""
    return (output.float().squeeze(1) - targets).abs()


def workload(model: nn.Module, data: Pair | None = None, num_train: int = NUM_TRAIN, **parts: Any) -> Workload:
    """Return a classifier of a table, or whatever else is given."""
    x, y = data or table()
    given: dict[str, Any] = {"loss": cross_entropy, "metric": accuracy} | parts
    train, val = TensorDataset(x[:num_train], y[:num_train]), TensorDataset(x[num_train:], y[num_train:])
    return Workload(model=model, train_data=train, val_data=val, **given)


def regression(model: nn.Module, data: Pair, loss: Callable[[Any, Any], Tensor] = squares) -> Workload:
    """Return a regression; the metric is the mean absolute error."""
    return workload(model, data, loss=loss, metric=distance, metric_goal="min")
