"""A decoder-only transformer that predicts the next byte of the Python standard library's sources."""

from __future__ import annotations

import functools
import math
import sysconfig
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.workloads.base import TensorPairs, Workload

VOCABULARY = 256


class Shape(NamedTuple):
    """Sizes of model and text."""

    width: int
    layers: int
    heads: int
    context: int
    text_bytes: int
    val_windows: int


SHAPES = {
    "tiny": Shape(32, 1, 2, 32, 200_000, 384),
    "small": Shape(64, 2, 4, 64, 1_000_000, 128),
    "large": Shape(1024, 12, 16, 1024, 20_000_000, 128),
}


class Block(nn.Module):
    """Pre-norm causal attention and a four times wider perceptron."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, time, width) to the same shape."""
        batch, time, width = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, time, 3, self.heads, width // self.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, time, width))
        out: Tensor = x + self.down(functional.gelu(self.up(self.norm2(x))))
        return out


class ByteTransformer(nn.Module):
    """Bytes (batch, time) to logits (batch, time, 256)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.Sequential(*(Block(shape.width, shape.heads) for _ in range(shape.layers)))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, VOCABULARY)
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of the next byte at every position."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        logits: Tensor = self.head(self.norm(self.blocks(x)))
        return logits


def build(size: str) -> Workload:
    """Return the workload; the large one (about 150 million parameters) fills a GPU."""
    shape = SHAPES[size]
    train, val = windows(shape)
    return Workload(
        model=ByteTransformer(shape),
        train_data=train,
        val_data=val,
        loss=loss,
        metric=bits_per_byte,
        metric_name="bits_per_byte",
        metric_goal="min",
        augment=drop_bytes,
        tokens_per_sample=shape.context,
    )


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy over all positions, in fp32."""
    return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def bits_per_byte(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy of each window in bits per byte, shape (batch,)."""
    nats = functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="none")
    return nats.view(targets.shape).mean(1) / math.log(2)


def drop_bytes(tokens: Tensor, generator: torch.Generator) -> Tensor:
    """Replace 5 % of the input bytes by zero."""
    keep = torch.rand(tokens.shape, generator=generator) >= 0.05
    return tokens * keep


@functools.cache
def windows(shape: Shape) -> tuple[TensorPairs, TensorPairs]:
    """Cut the text into windows of ``context`` bytes; the last tenth of the text is for validation."""
    text = torch.frombuffer(bytearray(standard_library_text(shape.text_bytes)), dtype=torch.uint8).long()
    cut = len(text) * 9 // 10
    train, val = text[:cut], text[cut:]
    return _pairs(train, shape.context, None), _pairs(val, shape.context, shape.val_windows)


def standard_library_text(limit: int) -> bytes:
    """Return up to ``limit`` bytes of the standard library's top-level sources, in name order."""
    parts, total = [], 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        parts.append(path.read_bytes())
        total += len(parts[-1])
        if total >= limit:
            break
    return b"".join(parts)[:limit]


def _pairs(text: Tensor, context: int, limit: int | None) -> TensorPairs:
    count = (len(text) - 1) // context
    inputs = text[: count * context].view(count, context)
    targets = text[1 : count * context + 1].view(count, context)
    return TensorPairs(inputs[:limit], targets[:limit])
