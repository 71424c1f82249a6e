"""Healthy models of tables: none of them has a fault, in fp32, bf16 or fp16."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

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
    table,
    workload,
)


class Residual(nn.Module):
    """A stack of residual blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH)) for _ in range(6)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        out: Tensor = self.head(x)
        return out


def residual() -> Workload:
    """Six residual blocks."""
    return workload(Residual())


class HalfNorm(nn.LayerNorm):
    """Computes in fp32 and gives back the format that it got."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised input."""
        return super().forward(x.float()).to(x.dtype)


def norms() -> Workload:
    """Batch norm, and a layer norm with a half output."""
    first = [nn.BatchNorm1d(FEATURES), nn.Linear(FEATURES, WIDTH), HalfNorm(WIDTH), nn.GELU()]
    return workload(nn.Sequential(*first, nn.Linear(WIDTH, CLASSES)), table(scale=5000.0))


def convolution() -> Workload:
    """A convolution with group norm and pooling."""
    layers = [nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU()]
    return workload(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES)))


class Functional(nn.Module):
    """No module inside, and an fp32 output: nothing but autocast knows that it computes in 16 bits."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(WIDTH, FEATURES) * 0.2)
        self.second = nn.Parameter(torch.randn(CLASSES, WIDTH) * 0.2)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return functional.linear(functional.linear(x, self.first).relu(), self.second).float()


def functional_only() -> Workload:
    """A model without modules."""
    return workload(Functional())


class Recomputed(nn.Module):
    """Recomputes its activations in the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.ReLU()), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        out: Tensor = self.head(checkpoint(self.body, x, use_reentrant=False))
        return out


def checkpointing() -> Workload:
    """Activation checkpointing."""
    return workload(Recomputed())


class HalfBackbone(nn.Module):
    """A frozen backbone that was loaded in bf16, and a head that learns in fp32."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU()).bfloat16().requires_grad_(False)
        self.head = nn.Linear(64, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        out: Tensor = self.head(self.backbone(x.bfloat16()).float())
        return out


def half_frozen_backbone() -> Workload:
    """Half weights that nobody updates."""
    return workload(HalfBackbone())


class Adversaries(nn.Module):
    """A critic that learns from what the model gives, and does not teach it."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.critic = perceptron(), nn.Linear(CLASSES, 1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Return logits and the critic's opinion."""
        logits = self.body(x)
        return {"logits": logits, "opinion": self.critic(logits.detach()), "label": logits.argmax(-1)}


def _both(output: dict[str, Tensor], targets: Tensor) -> Tensor:
    opinion = output["opinion"].float().squeeze(1)
    critic = functional.binary_cross_entropy_with_logits(opinion, (targets == 0).float())
    return cross_entropy(output["logits"], targets) + critic


def detached_critic() -> Workload:
    """Detached outputs, a dict, and integers among them."""
    return workload(Adversaries(), loss=_both, metric=lambda output, targets: accuracy(output["logits"], targets))


def coded_rows() -> Workload:
    """An autoencoder with noise in training."""

    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode, self.decode = nn.Linear(FEATURES, 4), nn.Linear(4, FEATURES)

        def forward(self, x: Tensor) -> Tensor:
            code = self.encode(x)
            noise = torch.randn_like(code) if self.training else torch.zeros_like(code)
            out: Tensor = self.decode(code + 0.1 * noise)
            return out

    def error(output: Tensor, targets: Tensor) -> Tensor:
        return (output.float() - targets).square().mean(1)

    x, _ = table()
    loss = lambda output, targets: error(output, targets).mean()  # noqa: E731
    return workload(Noisy(), (x, x.clone()), loss=loss, metric=error, metric_goal="min")


def large_targets() -> Workload:
    """A regression on prices that nobody normalised."""
    return regression(perceptron(outputs=1), line(offset=5e4, spread=2e4))


def small_targets() -> Workload:
    """A regression on very small numbers."""
    return regression(perceptron(outputs=1), line(spread=1e-4))


class Experts(nn.Module):
    """Each sample goes to one of sixteen experts: an expert that nobody asks has no gradient in that step."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(FEATURES, 16)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES)) for _ in range(16)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        shares = self.gate(x).softmax(-1)
        chosen, out = shares.argmax(-1), x.new_zeros(len(x), CLASSES)
        for number, expert in enumerate(self.experts):
            rows = (chosen == number).nonzero().flatten()
            if len(rows):
                out = out.index_add(0, rows, (expert(x[rows]) * shares[rows, number, None]).to(out.dtype))
        return out


def sparse_experts() -> Workload:
    """Which experts have a gradient depends on the last bit."""
    return workload(Experts())
