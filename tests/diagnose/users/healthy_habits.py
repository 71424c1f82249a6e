"""Healthy habits of training and scoring that look odd: none of them is a fault."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.workloads.base import Workload
from tests.diagnose.users.data import (
    CLASSES,
    FEATURES,
    WIDTH,
    accuracy,
    cross_entropy,
    line,
    perceptron,
    regression,
    seeded,
    squares,
    table,
    workload,
)


def plain() -> Workload:
    """Nothing odd at all."""
    return workload(perceptron())


def loss_as_autocast_gives_it() -> Workload:
    """Cross entropy on logits as they come: autocast computes it in fp32."""
    return workload(perceptron(), loss=functional.cross_entropy)


def loss_in_the_compute_format() -> Workload:
    """A hinge loss of the user's own, averaged by torch, and a few terms added to it in 16 bits."""

    def loss(output: Tensor, targets: Tensor) -> Tensor:
        total = (1 + output - output.gather(1, targets[:, None])).clamp_min(0).mean()
        for column in output.unbind(1):
            total += 0.01 * column.square().mean()
        return total

    return workload(perceptron(), loss=loss)


def summed_loss() -> Workload:
    """The sum over the batch instead of its mean."""
    loss = lambda output, targets: functional.cross_entropy(output.float(), targets, reduction="sum")  # noqa: E731
    return workload(perceptron(), loss=loss)


def several_terms() -> Workload:
    """Terms that are added up as fp32 scalars."""

    def loss(output: Tensor, targets: Tensor) -> Tensor:
        total = torch.zeros((), device=targets.device)
        for weight, term in ((1.0, cross_entropy(output, targets)), (1e-3, output.float().square().mean())):
            total = total + weight * term
        return total

    return workload(perceptron(), loss=loss)


def huge_gradients() -> Workload:
    """A loss in cents of a cent, with clipping."""
    return workload(perceptron(), loss=lambda output, targets: cross_entropy(output, targets) * 1e4)


def tiny_gradients() -> Workload:
    """A loss in the millions, divided by far too much; for formats with the exponents of fp32."""
    return workload(perceptron(), loss=lambda output, targets: cross_entropy(output, targets) * 1e-12)


def dead_units() -> Workload:
    """Most units are dead from the start."""
    model = perceptron(width=64)
    for name, bias in model.named_parameters():
        if name in {"0.bias", "2.bias"}:
            nn.init.constant_(bias[:50], -30.0)
    return workload(model)


def saturated_units() -> Workload:
    """Units whose gradients are exactly zero where they are cut off."""
    return workload(nn.Sequential(nn.Linear(FEATURES, 64), nn.Hardtanh(-0.5, 0.5), nn.Linear(64, CLASSES)))


def dropout() -> Workload:
    """Half of the units are dropped in training."""
    return workload(nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, CLASSES)))


def frozen_layers() -> Workload:
    """The first layer does not learn."""
    model = perceptron()
    model[0].requires_grad_(False)
    return workload(model)


class FrozenNorm(nn.Module):
    """A batch norm that stays in evaluation mode while the rest trains."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(FEATURES, WIDTH), nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, CLASSES)
        self.norm.requires_grad_(False)

    def train(self, mode: bool = True) -> FrozenNorm:
        """Keep the norm as it is."""
        super().train(mode)
        self.norm.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        out: Tensor = self.last(self.norm(self.first(x)).relu())
        return out


def frozen_norm() -> Workload:
    """Partly in evaluation mode."""
    return workload(FrozenNorm())


class EvaluatedInFp32(nn.Module):
    """Computes in fp32 when it does not train."""

    def __init__(self) -> None:
        super().__init__()
        self.body = perceptron()

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        with torch.autocast(x.device.type, enabled=self.training and torch.is_autocast_enabled(x.device.type)):
            out: Tensor = self.body(x)
        return out


def evaluated_in_fp32() -> Workload:
    """Finer in evaluation than in training."""
    return workload(EvaluatedInFp32())


class Counting(nn.Module):
    """Integer and boolean buffers that change."""

    calls: Tensor
    used: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.body, self.never_used = perceptron(), nn.Linear(3, 3)
        self.scale = nn.Parameter(torch.tensor(0.0))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("used", torch.ones(FEATURES, dtype=torch.bool))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        self.calls += 1
        out: Tensor = self.body(x * self.used) * self.scale.exp()
        return out


def buffers_and_unused_parts() -> Workload:
    """Buffers of integers, a scalar parameter, and a layer that nobody calls."""
    return workload(Counting())


def metric_as_a_float() -> Workload:
    """The mean over the batch as a Python number."""
    return workload(perceptron(), metric=lambda output, targets: float(accuracy(output, targets).mean()))


def metric_per_batch() -> Workload:
    """An F1 score: one number for a whole batch, which scatters."""

    def f1(output: Tensor, targets: Tensor) -> Tensor:
        guess, truth = output.argmax(-1) == 1, targets == 1
        return 2 * (guess & truth).sum() / (guess.sum() + truth.sum()).clamp_min(1)

    return workload(perceptron(), metric=f1)


def metric_near_zero() -> Workload:
    """A share of explained variance around zero, where a relative difference says nothing."""
    x, y = line()

    def explained(output: Tensor, targets: Tensor) -> Tensor:
        return 0.75 - (output.float().squeeze(1) - targets).square() / y.var()

    return workload(perceptron(outputs=1), (x, y), loss=squares, metric=explained)


def metric_in_fp32_of_half_logits() -> Workload:
    """The log likelihood of each sample."""

    def nats(output: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(output.float(), targets, reduction="none")

    return workload(perceptron(), metric=nats, metric_goal="min")


def very_small_data() -> Workload:
    """Thirty-two samples to learn from, and sixteen to score."""
    x, y = table()
    return workload(perceptron(), (x[:48], y[:48]), num_train=32)


def random_labels() -> Workload:
    """Nothing to learn."""
    x, _ = table()
    return workload(perceptron(), (x, torch.randint(0, CLASSES, (len(x),), generator=seeded(5))))


def easy_labels() -> Workload:
    """Learned at once: from then on most gradients are too small for fp16, and nobody needs them."""
    x, _ = table()
    x[:, 0] = x[:, 0].sign() * 30
    return workload(perceptron(outputs=2), (x, (x[:, 0] > 0).long()))


def one_class_is_never_allowed() -> Workload:
    """Logits of -inf in the output."""

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = perceptron(outputs=CLASSES + 1)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.body(x)
            return out.masked_fill(torch.arange(CLASSES + 1) == CLASSES, float("-inf"))

    return workload(Masked())


def a_running_total_that_is_reset() -> Workload:
    """A metric that keeps a half total per batch, in the same tensor, and starts it anew each time."""
    total: dict[str, Any] = {}

    def metric(output: Tensor, targets: Tensor) -> Tensor:
        kept: Tensor = total.setdefault(str(output.dtype), torch.zeros((), dtype=output.dtype))
        kept.zero_()
        for part in accuracy(output, targets).to(output.dtype).chunk(8):
            kept += part.mean() / 8
        return kept.float()

    return workload(perceptron(), metric=metric)


def rounded_in_evaluation() -> Workload:
    """A bf16 answer in evaluation that changes no decision: coarser than in training, and harmless."""

    class Rounded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = perceptron()

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.body(x)
            return out if self.training else out.bfloat16()

    return workload(Rounded())


def offset_regression() -> Workload:
    """A regression around 1000 whose answer stays in fp32."""

    class Offset(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = perceptron(outputs=1)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.body(x).float() + 1000.0
            return out

    return regression(Offset(), line(offset=1000.0))
