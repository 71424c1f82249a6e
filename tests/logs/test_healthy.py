"""Is the diagnosis silent on trainings that look alarming and are not?"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.logs import alarming
from tests.logs.asked import causes_of, diagnosis_of
from tests.logs.curves import epochs, falling, lines, steady

SEEDS = range(12)


def noisy(seed: int) -> str:
    """Losses of single samples: log-normal."""
    return lines(falling(seed, 300, 3, 1, 0.7))


def warm_up_bump(seed: int) -> str:
    """A bump while the learning rate warms up."""
    bump = [1 + 0.5 * math.exp(-(((i - 15) / 6) ** 2)) for i in range(120)]
    return lines([a * b for a, b in zip(falling(seed, 120), bump, strict=True)])


def cosine_restarts(seed: int) -> str:
    """The loss rises at each restart of the schedule."""
    return lines([v + 0.5 * math.exp(-(i % 40) / 8) * (i >= 40) for i, v in enumerate(falling(seed, 160, 3, 0.5))])


def harder_task(seed: int) -> str:
    """A curriculum that gets harder in the middle."""
    first, second = falling(seed, 80, 4, 1), falling(seed + 1, 80, 2.2, 1.3)
    return lines(first + second)


def learning_rate_drops(seed: int) -> str:
    """Training falls far below validation after each drop; validation gains a little."""
    draw = random.Random(seed)
    steps = [0.6 + 1.5 * math.exp(-i / 8) if i < 30 else 0.25 if i < 60 else 0.12 for i in range(90)]
    vals = [0.9 + 1.2 * math.exp(-i / 8) if i < 30 else 0.57 if i < 60 else 0.54 for i in range(90)]
    return epochs([v * math.exp(draw.gauss(0, 0.02)) for v in steps], [v * math.exp(draw.gauss(0, 0.02)) for v in vals])


def early_spikes(seed: int) -> str:
    """Spikes in the first tenth, and one late, that recover."""
    losses = falling(seed, 200)
    for index in (4, 9, 14, 120):
        losses[index] += 4
        losses[index + 1] += 2
    return lines(losses)


def contrastive(seed: int) -> str:
    """Flat near ln(256)."""
    return lines([math.log(256) * value for value in steady(seed, 120, 1.0, 0.004)])


def negative(seed: int) -> str:
    """A log-likelihood that goes below zero."""
    return lines([value - 8 for value in falling(seed, 120, 9, 0.5)])


def fine_tuning(seed: int) -> str:
    """A loss that begins low and hardly moves."""
    return lines([v * (1.03 - 0.03 * i / 80) for i, v in enumerate(steady(seed, 80, 1.4, 0.08))])


def converged(seed: int) -> str:
    """Flat after it has learned, near zero."""
    return lines([value + 1e-4 for value in falling(seed, 200, 2.3, 0.01, 0.4)])


def excerpt(seed: int) -> str:
    """The last part of a long run: flat."""
    return "\n".join(f"step {100000 + i * 10} loss {v:.4f}" for i, v in enumerate(steady(seed, 80, 2.45, 0.012)))


def noisy_validation(seed: int) -> str:
    """A small validation set: its loss goes up and down by 10 %."""
    train = falling(seed, 30, 2.3, 0.5, 0.02)
    wobble = steady(seed + 1, 30, 1.15, 0.08)
    return epochs(train, [a * b for a, b in zip(train, wobble, strict=True)])


def slight_turn(seed: int) -> str:
    """A validation loss that ends 4 % above its best."""
    vals = [(0.6 + 1.7 * math.exp(-i / 4) + 0.03 * max(0, i - 15) / 15) for i in range(30)]
    return epochs(
        falling(seed, 30, 2.3, 0.3, 0.02), [v * w for v, w in zip(vals, steady(seed, 30, 1, 0.01), strict=True)]
    )


def late_understanding(seed: int) -> str:
    """Validation stands still for long, then falls too."""
    vals = [3.0 if i < 70 else 3 * math.exp(-(i - 70) / 8) + 0.05 for i in range(100)]
    return epochs(falling(seed, 100, 3, 0.01), vals)


def validation_below_training(seed: int) -> str:
    """Dropout and augmentation make training harder than validation."""
    train = falling(seed, 30, 2.3, 0.8)
    return epochs(train, [0.8 * value for value in train])


def still_improving(seed: int) -> str:
    """Both are bad, and both get better."""
    scores = [0.1 + 0.01 * i + noise - 1 for i, noise in enumerate(steady(seed, 30, 1, 0.003))]
    losses = [(2.3 - 0.03 * i) * noise for i, noise in enumerate(steady(seed, 30, 1, 0.003))]
    return epochs(losses, [value * 1.01 for value in losses], scores)


def gradients_lost_at_first(seed: int) -> str:
    """The first steps under a loss scaler have no finite gradients."""
    return "\n".join(
        f"{{'loss': {v:.4f}, 'grad_norm': {'nan' if i < 2 else '1.2'}, 'epoch': {i / 50}}}"
        for i, v in enumerate(falling(seed, 60))
    )


def bfloat16(seed: int) -> str:
    """A loss scale of 1 that nobody uses."""
    return "\n".join(
        f"iteration {i}/100 | lm loss: {v:.4E} | loss scale: 1.0 | number of skipped iterations: 0 |"
        for i, v in enumerate(falling(seed, 60))
    )


def sparse_cells(seed: int) -> str:
    """A table that writes nan for what was not measured."""
    rows = ["step,train_loss,val_loss"]
    for i, value in enumerate(falling(seed, 60)):
        rows += [f"{i},{value},nan"] + ([f"{i},nan,{value * 1.02}"] if i % 6 == 5 else [])
    return "\n".join(rows)


def never_evaluated(seed: int) -> str:
    """A table whose validation column is nan throughout."""
    return "\n".join(["epoch,loss,val_loss", *[f"{i},{value},nan" for i, value in enumerate(falling(seed, 40))]])


def folds(seed: int) -> str:
    """Three folds one after the other: each begins anew."""
    return "\n".join(
        epochs(falling(seed + n, 20, 2.3, 0.4), falling(seed + n + 9, 20, 2.3, 0.5, 0.02)) for n in range(3)
    )


ALARMING: tuple[Callable[[int], str], ...] = (
    noisy, warm_up_bump, cosine_restarts, harder_task, learning_rate_drops, early_spikes, alarming.two_players,
    alarming.reinforcement, alarming.rewards_and_loss, contrastive, negative, fine_tuning, converged, excerpt,
    noisy_validation, slight_turn, late_understanding, validation_below_training, still_improving,
    alarming.uneven_steps, alarming.a_clock, alarming.longer_sequences, gradients_lost_at_first, bfloat16,
    sparse_cells, folds, never_evaluated, alarming.workers_start_each_epoch, alarming.flat_at_a_logarithm,
    alarming.near_zero, alarming.annealed, alarming.evaluated_before, alarming.settles_after_a_drop,
    alarming.a_slow_interval,
)  # fmt: skip


@pytest.mark.parametrize("training", ALARMING, ids=lambda training: training.__name__)
def test_no_false_alarm(training: Callable[[int], str], tmp_path: Path) -> None:
    """Whatever the seed, nothing is found and the log is healthy."""
    assert {tuple(causes_of(tmp_path, training(seed))) for seed in SEEDS} == {("healthy",)}


def healthy_curves() -> Iterator[str]:
    """Yield fifty trainings of every length, level and noise."""
    for seed in range(50):
        draw = random.Random(seed)
        last = draw.uniform(0.05, 3)
        yield lines(
            falling(seed, draw.choice([8, 20, 60, 200]), last * draw.uniform(1.2, 20), last, draw.uniform(0.01, 0.3))
        )


def test_fifty_healthy_curves(tmp_path: Path) -> None:
    """A loss that falls under noise is never a finding."""
    assert [found for text in healthy_curves() for found in diagnosis_of(tmp_path, text).findings] == []


def test_healthy_says_what_was_checked_and_what_could_not_be(tmp_path: Path) -> None:
    """Losses alone tell of the losses; the rest is named with what to log."""
    found = diagnosis_of(tmp_path, lines(falling(1, 60)))
    assert {"loss_nan", "loss_divergence", "loss_stuck"} <= set(found.checked)
    assert {"overfitting", "input_pipeline", "fp16_overflow"} <= {missing.needed_for for missing in found.missing}
    assert all(missing.observation and missing.command for missing in found.missing)
