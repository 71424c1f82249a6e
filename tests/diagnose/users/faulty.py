"""Faults that users write themselves, in other words than ours: in the model, the loss or the metric."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from harness.workloads.base import Workload
from tests.diagnose.users.data import (
    CLASSES,
    FEATURES,
    TOKENS,
    WIDTH,
    accuracy,
    line,
    perceptron,
    regression,
    seeded,
    tokens,
    workload,
)


def compute_format(x: Tensor) -> torch.dtype:
    """Return the format of products here and now."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


class InFormat(nn.Module):
    """A whole model in one format, with the cast that it needs."""

    def __init__(self, body: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.body, self.format = body.to(dtype), dtype

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        out: Tensor = self.body(x.to(self.format))
        return out


def loaded_in_bf16() -> Workload:
    """model.bfloat16() in the factory; autocast does the rest."""
    return workload(perceptron().bfloat16())


def cast_with_its_inputs() -> Workload:
    """All in bf16, also the inputs, whatever the precision of the run."""
    return workload(InFormat(perceptron(), torch.bfloat16))


def cast_to_half() -> Workload:
    """All in fp16, where neither small squared gradients nor Adam's eps exist."""
    return workload(InFormat(perceptron(), torch.float16))


def one_layer_in_bf16() -> Workload:
    """Most of the weights are in one layer, and that is in bf16."""
    model = perceptron(width=64)
    model[2].bfloat16()
    return workload(model)


class UnscaledSums(nn.Module):
    """Residual sums that grow by a factor in each block, and a norm that hides it in fp32."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(FEATURES, WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(12))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        x = self.first(x)
        for block in self.blocks:
            x = 3 * x + block(x)
        out: Tensor = self.head(self.norm(x))
        return out


def unscaled_residual_sums() -> Workload:
    """Activations above 65504 from the tenth block on."""
    return workload(UnscaledSums())


class Times(nn.Module):
    """A constant and its inverse around a layer."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.first, self.last, self.factor = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES), factor

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        out: Tensor = self.last(self.first(x).relu() * self.factor)
        return out / self.factor


def a_big_constant() -> Workload:
    """1e5 is no fp16 number."""
    return workload(Times(1e5))


class Padded(nn.Module):
    """Attention in which whole rows are masked, by adding a constant."""

    def __init__(self, value: float | None) -> None:
        super().__init__()
        self.table, self.qkv, self.head = nn.Embedding(TOKENS, WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 4)
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        q, k, v = self.qkv(self.table(x)).chunk(3, -1)
        scores = q @ k.transpose(1, 2) / 6
        value = torch.finfo(scores.dtype).min / 2 if self.value is None else self.value
        padding = (x % 5 == 0).to(scores.dtype)
        # Once for the columns and once for the rows: a constant that fits once need not fit three times.
        hidden = (padding[:, None] + padding[:, :, None] + padding[:, None]) * value
        out: Tensor = self.head((functional.softmax(scores + hidden, -1).to(v.dtype) @ v).mean(1))
        return out


def a_mask_of_1e9() -> Workload:
    """-1e9 is -inf in fp16, and a row of nothing but -inf has no softmax."""
    return workload(Padded(-1e9), tokens())


class Exponential(nn.Module):
    """A softmax written by hand, without subtracting the largest."""

    def __init__(self) -> None:
        super().__init__()
        self.body = perceptron()

    def forward(self, x: Tensor) -> Tensor:
        """Return log probabilities."""
        powers: Tensor = (self.body(x) + 12).exp().to(compute_format(x))
        return (powers / powers.sum(-1, keepdim=True)).float().clamp_min(1e-6).log()


def exp_by_hand() -> Workload:
    """exp(12) is above 65504."""
    return workload(Exponential())


def squares_in_the_loss() -> Workload:
    """A loss that squares half numbers before it scales them down."""

    def loss(output: Tensor, targets: Tensor) -> Tensor:
        difference = (output - functional.one_hot(targets, CLASSES).to(output.dtype)) * 400
        return (difference * difference).mean() / 160000

    return workload(perceptron(), loss=loss)


def loss_summed_before_the_mean() -> Workload:
    """The sum over the batch leaves the fp16 range, the mean would not."""

    def loss(output: Tensor, targets: Tensor) -> Tensor:
        errors = (output - functional.one_hot(targets, CLASSES).to(output.dtype)).square() * 4000
        return errors.sum() / errors.numel()

    return workload(perceptron(), loss=loss)


def loss_added_up_sample_by_sample() -> Workload:
    """A Python loop over the batch with a half total."""

    def loss(output: Tensor, targets: Tensor) -> Tensor:
        total = torch.zeros((), dtype=output.dtype)
        for value in functional.cross_entropy(output.float(), targets, reduction="none").to(output.dtype):
            total = total + value * 100
        return total / len(targets)

    return workload(perceptron(), loss=loss)


class Normalised(nn.Module):
    """Divides by a norm that is computed in the format of the products."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.first, self.last, self.how = nn.Linear(FEATURES, 512), nn.Linear(512, CLASSES), how

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        x = self.first(x) * 6000
        norm = x.norm(dim=-1, keepdim=True) if self.how == "norm" else (x * x).sum(-1, keepdim=True).sqrt()
        out: Tensor = self.last(x / (norm + 1e-3))
        return out


def norm_that_overflows() -> Workload:
    """The values fit into fp16, their norm does not: all outputs become zero and nothing complains."""
    return workload(Normalised("norm"))


def squares_that_overflow() -> Workload:
    """The same by hand: already the squares do not fit."""
    return workload(Normalised("squares"))


def many_samples() -> tuple[Tensor, Tensor]:
    """Return a table with enough samples to score."""
    x = torch.randn(2048, FEATURES, generator=seeded(0))
    return x, (x[:, :CLASSES]).argmax(1)


def metric_that_counts_over_batches() -> Workload:
    """A running mean over the whole validation, in half."""
    total = {"sum": torch.zeros(()), "count": torch.zeros(())}

    def metric(output: Tensor, targets: Tensor) -> Tensor:
        if total["sum"].dtype != output.dtype:
            total.update(sum=torch.zeros((), dtype=output.dtype), count=torch.zeros(()))
        for value in accuracy(output, targets).to(output.dtype):
            total["sum"] = total["sum"] + value
            total["count"] = total["count"] + 1
        return total["sum"].float() / total["count"]

    return workload(perceptron(), many_samples(), metric=metric)


def metric_that_adds_in_place() -> Workload:
    """A loop over the batch with +=."""

    def metric(output: Tensor, targets: Tensor) -> Tensor:
        total = torch.zeros((), dtype=output.dtype)
        for value in functional.cross_entropy(output.float(), targets, reduction="none").to(output.dtype):
            total += value
        return total / len(targets)

    return workload(perceptron(), many_samples(), metric=metric, metric_goal="min")


class RoundedAnswer(nn.Module):
    """Answers in a 16-bit format when it does not train."""

    def __init__(self, dtype: torch.dtype, offset: float) -> None:
        super().__init__()
        self.body, self.format, self.offset = perceptron(outputs=1), dtype, offset

    def forward(self, x: Tensor) -> Tensor:
        """Return the prediction."""
        out: Tensor = self.body(x).float() + self.offset
        return out if self.training else out.to(self.format)


def answers_in_bf16() -> Workload:
    """bf16 holds every fourth number around 1000."""
    return regression(RoundedAnswer(torch.bfloat16, 1000.0), line(offset=1000.0))


def answers_beyond_fp16() -> Workload:
    """The answers are around 70,000."""
    return regression(RoundedAnswer(torch.float16, 7e4), line(offset=7e4))


class CoarseLayers(nn.Module):
    """Evaluates with weights that went through fp8 without a scale."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        if self.training:
            out: Tensor = self.last(self.first(x).relu())
            return out
        first, last = (layer.weight.mul(2**-7).to(torch.float8_e4m3fn).bfloat16() for layer in (self.first, self.last))
        return functional.linear(functional.linear(x.bfloat16(), first).relu(), last)


def evaluated_in_fp8() -> Workload:
    """Small weights are zero in evaluation only."""
    x, y = many_samples()
    data = TensorDataset(x[:512], y[:512]), TensorDataset(x[512:], y[512:])
    made = workload(CoarseLayers())
    return Workload(model=made.model, train_data=data[0], val_data=data[1], loss=made.loss, metric=made.metric)
