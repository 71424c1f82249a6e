"""More trainings that look alarming and are not: of several players, with odd times, at odd levels."""

from __future__ import annotations

import math
import random

from tests.logs.curves import epochs, falling, lines, steady


def workers_start_each_epoch(seed: int) -> str:
    """The first batch of each epoch waits for its workers; prints are rare."""
    rows = []
    for epoch in range(6):
        for i, value in enumerate(falling(seed + epoch, 6, 3, 2.5)):
            wait = 5.0 if i == 0 else 0.01
            rows.append(f"Epoch: [{epoch}][{i * 200}/1251]\tTime {0.2 + wait:.3f} ({0.25 + wait / (i + 1):.3f})\tData "
                        f"{wait:.3f} ({0.02 + wait / (i + 1):.3f})\tLoss {value:.4f} ({value:.4f})")  # fmt: skip
    return "\n".join(rows)


def flat_at_a_logarithm(seed: int) -> str:
    """A fine-tuning that begins where it ends, by chance at ln(19)."""
    return lines([math.log(19) * value for value in steady(seed, 100, 1.0, 0.05)])


def near_zero(seed: int) -> str:
    """A regression that has converged: the loss jumps by large ratios of nothing."""
    draw = random.Random(seed)
    return lines([2 * math.exp(-i / 6) + 0.02 * math.exp(draw.gauss(0, 1.2)) for i in range(200)])


def annealed(seed: int) -> str:
    """A KL term that is switched on slowly raises the loss by a tenth."""
    return lines(
        [210 * math.exp(-i / 6) + 92 + 12 * min(1, i / 40) + w for i, w in enumerate(steady(seed, 80, 1, 0.5))]
    )


def evaluated_before(seed: int) -> str:
    """The only evaluation was made before the first step."""
    return "val loss 11.009\n" + lines(falling(seed, 60, 11, 5))


def settles_after_a_drop(seed: int) -> str:
    """Training halves at once when the learning rate drops; validation gains a little, and both settle."""
    wobble = steady(seed, 40, 1.0, 0.01)
    train = [(1 + 3 * math.exp(-i / 5)) * (1 if i < 26 else 0.45) * w for i, w in enumerate(wobble)]
    return epochs(train, [(1.05 + 3 * math.exp(-i / 5)) * (1 if i < 26 else 0.95) for i in range(40)])


def a_slow_interval(seed: int) -> str:
    """The first prints are slow, and the last print holds an evaluation."""
    times = [t * (6 if i < 8 else 20 if i > 117 else 1) for i, t in enumerate(steady(seed, 120, 0.3))]
    return "\n".join(
        f"step {i} loss {v:.4f} time {t:.3f}s" for i, (v, t) in enumerate(zip(falling(seed, 120), times, strict=True))
    )


def uneven_steps(seed: int) -> str:
    """A slow first step, evaluations in every 25th, accumulation in every fourth."""
    times = [
        t * (30 if i == 0 else 4 if i % 25 == 24 else 1.8 if i % 4 == 3 else 1)
        for i, t in enumerate(steady(seed, 150, 0.4))
    ]
    waits = [w + 8 * (i == 0) for i, w in enumerate(steady(seed + 1, 150, 0.01, 0.5))]
    rows = zip(falling(seed, 150), times, waits, strict=True)
    return "\n".join(f"iter {i}: loss {a:.4f}, time: {b:.4f}s, data_time: {c:.4f}s" for i, (a, b, c) in enumerate(rows))


def a_clock(seed: int) -> str:
    """Seconds since the start, in a column that is called time."""
    clock, rows = 0.0, ["epoch,time,loss,val_loss"]
    for i, value in enumerate(falling(seed, 60)):
        clock += 38.0 if i < 11 else 52.0
        rows.append(f"{i + 1},{clock:.3f},{value},{value * 1.02}")
    return "\n".join(rows)


def longer_sequences(seed: int) -> str:
    """Steps take three times as long, at the same tokens per second."""
    grow = [1 + 2 * i / 100 for i in range(100)]
    rows = zip(falling(seed, 100), grow, steady(seed, 100, 1.0), strict=True)
    return "\n".join(
        f"step {i} loss {a:.4f} step_time {b * c:.4f}s tokens/s {40000 / c:,.0f}" for i, (a, b, c) in enumerate(rows)
    )


def two_players(seed: int) -> str:
    """A GAN: the generator's loss rises."""
    draw = random.Random(seed)
    return "\n".join(
        f"[Epoch {i // 10}/20] [Batch {i % 10}/10] [D loss: {0.6 - i / 1000 + draw.gauss(0, 0.05):.4f}] [G loss: "
        f"{1 + i / 50 + draw.gauss(0, 0.2):.4f}]"
        for i in range(200)
    )


def reinforcement(seed: int) -> str:
    """The value loss rises with the rewards."""
    draw = random.Random(seed)
    return "\n".join(
        f"iter {i} policy_loss {draw.gauss(0, 0.02):.4f} value_loss {1 + i / 5 + draw.random():.3f} mean_reward "
        f"{10 + i}"
        for i in range(100)
    )


def rewards_and_loss(seed: int) -> str:
    """A single loss that rises beside the rewards."""
    draw = random.Random(seed)
    return "\n".join(
        f"episode: {i}, reward: {i * 2 + draw.gauss(0, 5):.1f}, loss: {0.1 + i / 20 + draw.random():.3f}"
        for i in range(100)
    )
