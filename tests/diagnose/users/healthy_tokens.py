"""Healthy models of tokens: embeddings, attention with masks of every kind, recurrent nets."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from harness.workloads.base import Workload
from tests.diagnose.users.data import CLASSES, FEATURES, LENGTH, TOKENS, WIDTH, tokens, workload


class Pooled(nn.Module):
    """Embeds tokens, does something, and averages over time."""

    def __init__(self, body: nn.Module, vocabulary: int = TOKENS, *, sparse: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, WIDTH, sparse=sparse)
        self.body, self.head = body, nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        out: Tensor = self.head(self.body(self.table(x)).mean(1))
        return out


def mean_pool() -> Workload:
    """Averages of half numbers, also of very small ones."""
    return workload(Pooled(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())), tokens())


def sparse_embedding() -> Workload:
    """Sparse gradients."""
    return workload(Pooled(nn.Identity(), sparse=True), tokens())


def rows_that_are_never_used() -> Workload:
    """An embedding most of whose gradients are exactly zero."""
    return workload(Pooled(nn.Identity(), vocabulary=5000), tokens())


def embedding_bag() -> Workload:
    """Bags of tokens."""
    return workload(nn.Sequential(nn.EmbeddingBag(TOKENS, WIDTH), nn.Linear(WIDTH, CLASSES)), tokens())


class Mask(nn.Module):
    """Hides what comes later, with a constant of the user's choice."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, scores: Tensor) -> Tensor:
        """Return the scores with a causal mask."""
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        if self.kind == "added in fp32":
            wide: Tensor = scores.float() + later * -1e9
            return wide
        value = {"inf": float("-inf"), "min": torch.finfo(scores.dtype).min, "1e4": -1e4}[self.kind]
        masked: Tensor = scores.masked_fill(later, value)
        return masked


class Attention(nn.Module):
    """Causal attention, written out."""

    def __init__(self, mask: str) -> None:
        super().__init__()
        self.qkv, self.mask, self.softmax = nn.Linear(WIDTH, 3 * WIDTH), Mask(mask), nn.Softmax(-1)

    def forward(self, x: Tensor) -> Tensor:
        """Mix over time."""
        q, k, v = self.qkv(x).chunk(3, -1)
        shares = self.softmax(self.mask(q @ k.transpose(1, 2) / math.sqrt(WIDTH)))
        mixed: Tensor = shares.to(v.dtype) @ v
        return mixed


def mask_of_inf() -> Workload:
    """-inf where nobody may look."""
    return workload(Pooled(Attention("inf")), tokens())


def mask_of_min() -> Workload:
    """The most negative number of the format."""
    return workload(Pooled(Attention("min")), tokens())


def mask_of_1e4() -> Workload:
    """A constant that fits into fp16."""
    return workload(Pooled(Attention("1e4")), tokens())


def mask_added_in_fp32() -> Workload:
    """-1e9 in fp32, where it belongs."""
    return workload(Pooled(Attention("added in fp32")), tokens())


def transformer() -> Workload:
    """Torch's own encoder with dropout."""
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, batch_first=True, norm_first=True)
    return workload(Pooled(nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)), tokens())


class Recurrent(nn.Module):
    """The last state of a recurrent net; its output is a tuple."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.table, self.net, self.head = nn.Embedding(TOKENS, FEATURES), net, nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        out: Tensor = self.head(self.net(self.table(x))[0][:, -1])
        return out


def gru() -> Workload:
    """A GRU."""
    return workload(Recurrent(nn.GRU(FEATURES, WIDTH, batch_first=True)), tokens())


def lstm() -> Workload:
    """An LSTM."""
    return workload(Recurrent(nn.LSTM(FEATURES, WIDTH, batch_first=True)), tokens())


class Tied(nn.Module):
    """One matrix at both ends."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(TOKENS, WIDTH), nn.Linear(WIDTH, TOKENS, bias=False)
        self.out.weight = self.table.weight

    def forward(self, x: Tensor) -> Tensor:
        """Return logits over the tokens."""
        out: Tensor = self.out(self.table(x).mean(1))
        return out


def weight_tying() -> Workload:
    """A shared parameter."""
    return workload(Tied(), tokens())


def long_rows() -> Workload:
    """Sums over time in the format of the products."""

    class Summed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.cumsum(1) / LENGTH

    return workload(Pooled(nn.Sequential(nn.Linear(WIDTH, WIDTH), Summed())), tokens())
