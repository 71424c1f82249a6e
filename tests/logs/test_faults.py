"""Is each cause found where it is, with its number and its line?"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.logs.asked import causes_of, diagnosis_of
from tests.logs.curves import falling, steady
from tests.logs.test_healthy import epochs, lines


def zeros_for_nan(seed: int) -> str:
    """A trainer that prints nan as 0."""
    losses = [f"{{'loss': {v:.4f}, 'grad_norm': 1.1, 'epoch': {i / 50}}}" for i, v in enumerate(falling(seed, 20))]
    return "\n".join([*losses, *[f"{{'loss': 0.0, 'grad_norm': nan, 'epoch': {i / 50}}}" for i in range(20, 24)]])


def infinite(seed: int) -> str:
    """The loss grows without bound."""
    return lines([*falling(seed, 20), 1e8, 1e30, math.inf, math.inf])


def said_in_words(seed: int) -> str:
    """A script that stops with a sentence."""
    return lines(falling(seed, 20)) + "\nLoss is nan, stopping training"


def climbs_at_once(seed: int) -> str:
    """A learning rate that is far too high."""
    return lines([2.3 * math.exp(0.1 * i) * w for i, w in enumerate(steady(seed, 40, 1.0, 0.1))])


def collapses_late(seed: int) -> str:
    """A language model that falls back to its first loss."""
    return lines(falling(seed, 200, 10, 3) + [7.5 * w for w in steady(seed, 60, 1.0, 0.02)])


def ten_classes(seed: int) -> str:
    """Ten classes, and nothing is learned."""
    losses = [math.log(10) * w for w in steady(seed, 12, 1.0, 0.0005)]
    return epochs(losses, losses, [0.1] * 12)


def one_number(seed: int) -> str:
    """Dead outputs: the same number from some step on."""
    return lines([*falling(seed, 8, 5, 1, 0.5), *[math.log(2)] * 50])


def turns(seed: int) -> str:
    """Validation turns at a third."""
    vals = [(0.6 + 1.7 * math.exp(-i / 3) + 0.03 * max(0, i - 10)) for i in range(30)]
    return epochs(falling(seed, 30, 2.3, 0.05), [v * w for v, w in zip(vals, steady(seed, 30, 1, 0.02), strict=True)])


def stands_still(seed: int) -> str:
    """Validation stands at 1.0 from early on while training goes to zero."""
    vals = [(1.0 + 1.3 * math.exp(-i / 2)) * w for i, w in enumerate(steady(seed, 40, 1.0, 0.01))]
    return epochs(falling(seed, 40, 2.3, 0.02), vals)


def learns_little(seed: int) -> str:
    """Both stand at 30 % and no longer move."""
    wobble = steady(seed, 40, 1.0, 0.004)
    losses = [(1.9 + 0.4 * math.exp(-i / 3)) * w for i, w in enumerate(wobble)]
    return epochs(
        losses, [v * 1.01 for v in losses], [(0.3 - 0.2 * math.exp(-i / 3)) * w for i, w in enumerate(wobble)]
    )


def waits_for_data(seed: int) -> str:
    """Data takes half of each step, in bursts."""
    draw = random.Random(seed)
    waits = [draw.choice([0.01, 0.01, 0.01, 4.0]) for _ in range(80)]
    rows = zip(falling(seed, 80), waits, strict=True)
    return "\n".join(
        f"Epoch: [0][{i}/80] Time {0.4 + w:.3f} Data {w:.3f} Loss {v:.4f}" for i, (v, w) in enumerate(rows)
    )


def slows_down(seed: int) -> str:
    """Each step takes a little longer."""
    rows = zip(falling(seed, 80), steady(seed, 80, 0.3, 0.1), strict=True)
    return "\n".join(
        f"step={i} loss={v:.4f} step_time={t * (1 + i / 40) * 1000:.1f}ms" for i, (v, t) in enumerate(rows)
    )


FAULTY: dict[Callable[[int], str], str] = {
    zeros_for_nan: "loss_nan",
    infinite: "loss_nan",
    said_in_words: "loss_nan",
    climbs_at_once: "loss_divergence",
    collapses_late: "loss_divergence",
    ten_classes: "loss_stuck",
    one_number: "loss_stuck",
    turns: "overfitting",
    stands_still: "overfitting",
    learns_little: "underfitting",
    waits_for_data: "input_pipeline",
    slows_down: "step_time_drift",
}


@pytest.mark.parametrize(("training", "cause"), FAULTY.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_cause_is_found(training: Callable[[int], str], cause: str, tmp_path: Path) -> None:
    """Whatever the seed, this cause and no other."""
    assert {tuple(causes_of(tmp_path, training(seed))) for seed in range(6)} == {(cause,)}


def test_spikes_are_a_warning_only(tmp_path: Path) -> None:
    """A loss that jumps and returns is inconclusive."""
    losses = falling(1, 300)
    for index in (90, 140, 200, 260):
        losses[index] *= 3
    found = diagnosis_of(tmp_path, lines(losses))
    assert (found.status, [f.cause for f in found.findings]) == ("inconclusive", ["loss_spikes"])


def test_one_evaluation_is_a_doubt(tmp_path: Path) -> None:
    """A large gap that was seen once is neither healthy nor overfitting, and the log says what is missing."""
    found = diagnosis_of(tmp_path, "iter 0: val loss 1.7258\n" + lines([0.27, 0.28, 0.26, 0.29, 0.27, 0.28]))
    assert found.status == "not_enough_evidence"
    assert "1.726" in next(m.observation for m in found.missing if m.needed_for == "overfitting")


def test_one_lost_loss_is_a_doubt(tmp_path: Path) -> None:
    """A loss that is nan once and comes back is not called healthy."""
    losses = falling(1, 40)
    losses[20] = math.nan
    assert causes_of(tmp_path, lines(losses)) == ["not_enough_evidence"]


def test_finding_names_number_step_and_line(tmp_path: Path) -> None:
    """The summary has the step and the line of the first nan; the evidence has file and line."""
    (finding,) = diagnosis_of(tmp_path, lines([*falling(1, 20), math.nan, math.nan])).findings
    assert "nan at step 20, line 21" in finding.summary
    assert finding.evidence[0].source == f"{tmp_path / 'train.log'}:21"


def test_each_run_of_a_file_is_judged(tmp_path: Path) -> None:
    """A run that failed before a healthy one is told with its number."""
    text = lines([*falling(1, 20), math.nan, math.nan]) + "\n" + lines(falling(2, 40))
    (finding,) = diagnosis_of(tmp_path, text).findings
    assert finding.summary.startswith("run 1 of 2: ")


def test_waiting_states_its_share(tmp_path: Path) -> None:
    """Nine tenths of each step go by before its batch is there."""
    text = "\n".join(f"iter: {i} loss: {2 - i / 50:.3f} time: 2.0 data_time: 1.8" for i in range(10))
    (finding,) = diagnosis_of(tmp_path, text).findings
    assert finding.summary.startswith("Waiting for data takes 90% of the step time")


def test_excerpt_with_means_only(tmp_path: Path) -> None:
    """A print in every n steps may miss the batches that waited; the means in parentheses hold them."""
    text = "\n".join(
        f"Epoch: [1][{5760 + 64 * i}/10010]\tTime 0.427 ({2.7 + i / 1000:.3f})\tData 0.000 "
        f"({2.3 + i / 1000:.3f})\tLoss {8 - i / 9:.4f} (9.1)"
        for i in range(12)
    )
    assert causes_of(tmp_path, text) == ["input_pipeline"]
