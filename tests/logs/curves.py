"""Curves as trainings draw them, from a seed."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field


@dataclass
class Curve:
    """The numbers of one run, a list each; what is empty is not printed."""

    loss: list[float]
    val: dict[int, float] = field(default_factory=dict)
    """Index of a loss -> the validation loss after it."""
    accuracy: dict[int, float] = field(default_factory=dict)
    grad_norm: list[float] = field(default_factory=list)
    step_time: list[float] = field(default_factory=list)
    data_time: list[float] = field(default_factory=list)
    scale: list[float] = field(default_factory=list)


def falling(seed: int, length: int = 60, first: float = 6.0, last: float = 2.0, scatter: float = 0.04) -> list[float]:
    """Return a loss that falls and settles, with noise in proportion to it."""
    draw = random.Random(seed)
    shape = [last + (first - last) * math.exp(-5 * i / length) for i in range(length)]
    return [value * math.exp(draw.gauss(0, scatter)) for value in shape]


def steady(seed: int, length: int = 60, level: float = 0.5, scatter: float = 0.04) -> list[float]:
    """Return numbers that scatter around a level."""
    draw = random.Random(seed)
    return [level * math.exp(draw.gauss(0, scatter)) for _ in range(length)]


def healthy(seed: int = 0, length: int = 60) -> Curve:
    """Return a healthy run with all its numbers; it is evaluated ten times."""
    loss = falling(seed, length)
    draw = random.Random(seed + 1)
    every = max(1, length // 10)
    evaluated = range(every - 1, length, every)
    return Curve(
        loss,
        val={i: sum(loss[max(0, i - 2) : i + 1]) / len(loss[max(0, i - 2) : i + 1]) * 1.03 for i in evaluated},
        accuracy={i: min(0.95, 0.2 + 0.7 * (1 - math.exp(-4 * i / length)) + draw.gauss(0, 0.01)) for i in evaluated},
        grad_norm=steady(seed + 2, length, 1.0, 0.3),
        step_time=steady(seed + 3, length, 0.5),
        data_time=steady(seed + 4, length, 0.01, 0.3),
        scale=[65536.0] * length,
    )


def lost(seed: int = 0, length: int = 60) -> Curve:
    """Return a run whose loss becomes nan in the middle."""
    curve = healthy(seed, length)
    middle = length // 2
    curve.loss[middle:] = [math.nan] * (length - middle)
    curve.grad_norm[middle:] = [math.nan] * (length - middle)
    curve.val = {i: math.nan if i >= middle else value for i, value in curve.val.items()}
    return curve


def overfitted(seed: int = 0, length: int = 60) -> Curve:
    """Return a run whose validation loss turns at a third while its training loss goes on to fall."""
    curve = healthy(seed, length)
    curve.loss = falling(seed, length, 2.3, 0.05)
    draw = random.Random(seed + 5)
    curve.val = {
        i: (0.7 + 1.6 * math.exp(-12 * i / length) + 1.2 * max(0.0, i / length - 0.3)) * math.exp(draw.gauss(0, 0.02))
        for i in curve.val
    }
    curve.accuracy = {}
    return curve


def diverged(seed: int = 0, length: int = 60) -> Curve:
    """Return a run whose loss climbs above its start after 60 % and stays there."""
    curve = healthy(seed, length)
    curve.loss = [
        v if i < 0.6 * length else 7.5 * v / falling(seed, length, 1.0, 1.0)[i] / v for i, v in enumerate(curve.loss)
    ]
    curve.val, curve.accuracy = {}, {}
    return curve


def lines(losses: list[float], more: str = "") -> str:
    """Return a log with these losses."""
    return "\n".join(f"step {i} loss {loss:.5f}{more}" for i, loss in enumerate(losses))


def epochs(losses: list[float], vals: list[float], accuracies: list[float] | None = None) -> str:
    """Return a log of epochs."""
    scores = [f" val_acc={value:.4f}" for value in accuracies] if accuracies else [""] * len(losses)
    rows = zip(losses, vals, scores, strict=True)
    return "\n".join(f"epoch={i} loss={a:.5f} val_loss={b:.5f}{score}" for i, (a, b, score) in enumerate(rows))
