"""Is each cause found where it is, with its number and its line?"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.logs.asked import causes_of, diagnosis_of
from tests.logs.curves import epochs, falling, lines, steady


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


def turns_slowly(seed: int) -> str:
    """Validation rises by 7 % over two thirds of the run while training halves."""
    vals = [(1.0 + 1.3 * math.exp(-i / 4) + 0.07 * max(0, i - 15) / 30) for i in range(45)]
    return epochs(
        falling(seed, 45, 2.3, 0.5, 0.02), [v * w for v, w in zip(vals, steady(seed, 45, 1, 0.008), strict=True)]
    )


def gap_opens(seed: int) -> str:
    """Validation stands while training goes on to less than half of it."""
    vals = [(1.2 + 1.5 * math.exp(-i / 4)) * w for i, w in enumerate(steady(seed, 50, 1.0, 0.01))]
    return epochs([(0.4 + 2.3 * math.exp(-i / 14)) * w for i, w in enumerate(steady(seed, 50, 1.0, 0.02))], vals)


def explodes_at_the_end(seed: int) -> str:
    """Six steps from normal to far above the start."""
    return lines([*falling(seed, 30, 2.3, 1.1), 3.1e3, 8.8e4, 2.2e6, 9.1e7, 3.3e9])


def climbs_for_long(seed: int) -> str:
    """The loss climbs by half over the second half, and goes on."""
    return lines([v * (1 + 0.7 * max(0, i - 100) / 100) for i, v in enumerate(falling(seed, 200, 6, 2, 0.01))])


def computes_and_waits(seed: int) -> str:
    """The wait and the computing are printed, and no step time."""
    return "\n".join(
        f"[{i:03d}] loss {v:.4f} | data time 0.6 s | compute time 0.2 s" for i, v in enumerate(falling(seed, 40))
    )


def waits_in_other_lines(seed: int) -> str:
    """Each number has a line of its own."""
    return "\n".join(
        f"-- STEP: {i * 25}\n | > loss: {v:.4f}\n | > step_time: 1.2\n | > loader_time: 0.8"
        for i, v in enumerate(falling(seed, 40))
    )


def slow_at_the_end(seed: int) -> str:
    """The last fifth of the steps takes twice as long."""
    times = [t * (2 if i >= 96 else 1) for i, t in enumerate(steady(seed, 120, 0.3))]
    return "\n".join(
        f"step {i} loss {v:.4f} time {t:.3f}s" for i, (v, t) in enumerate(zip(falling(seed, 120), times, strict=True))
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
    turns_slowly: "overfitting",
    gap_opens: "overfitting",
    explodes_at_the_end: "loss_divergence",
    climbs_for_long: "loss_divergence",
    computes_and_waits: "input_pipeline",
    waits_in_other_lines: "input_pipeline",
    slow_at_the_end: "step_time_drift",
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


@pytest.mark.parametrize(("lost", "first"), [("nan", "1.2"), ("inf", "1.2"), ("nan", "nan")])
def test_gradients_that_are_lost_to_the_end(lost: str, first: str, tmp_path: Path) -> None:
    """The loss is still printed as a number, and the gradients are none any more."""
    text = "\n".join(
        f"step {i} loss {v:.4f} grad_norm {lost if i > 30 else first}" for i, v in enumerate(falling(1, 40))
    )
    assert causes_of(tmp_path, text) == ["loss_nan"]


def test_infinite_gradients_from_the_start_are_a_calibration(tmp_path: Path) -> None:
    """A short log may end before the loss scale has settled."""
    text = "\n".join(f"step {i} loss {v:.4f} grad_norm inf" for i, v in enumerate(falling(1, 12)))
    assert causes_of(tmp_path, text) == ["healthy"]


def test_stuck_without_gradients_says_so(tmp_path: Path) -> None:
    """A norm of exactly 0 tells why nothing moves."""
    text = "\n".join(
        f"step {i} loss {math.log(50257) * w:.4f} grad_norm 0.0" for i, w in enumerate(steady(1, 40, 1, 0.001))
    )
    (finding,) = diagnosis_of(tmp_path, text).findings
    assert "no gradient reaches" in finding.evidence[-1].threshold


def test_a_slow_down_says_what_part_is_waiting(tmp_path: Path) -> None:
    """Data time that grows with the step time names the input, in numbers."""
    rows = [
        f"iter {i} loss {v:.4f} time {0.5 + i / 100:.3f} data_time {0.01 + i / 100:.3f}"
        for i, v in enumerate(falling(1, 50))
    ]
    findings = {finding.cause: finding for finding in diagnosis_of(tmp_path, "\n".join(rows)).findings}
    assert "100% is waiting for data" in findings["step_time_drift"].summary


def test_validation_that_turns_alone_is_a_doubt(tmp_path: Path) -> None:
    """Training stands still while validation doubles: that is no memorising."""
    vals = [1.0 + 0.05 * max(0, i - 8) for i in range(30)]
    assert causes_of(tmp_path, epochs(steady(1, 30, 0.9, 0.01), vals)) == ["not_enough_evidence"]


def test_a_negative_validation_loss_turns(tmp_path: Path) -> None:
    """A Dice loss below zero: the rise counts as a share of what was learned."""
    vals = [-0.66 + 0.58 * math.exp(-i / 10) + max(0, i - 40) * 0.0015 for i in range(120)]
    (finding,) = diagnosis_of(tmp_path, epochs([-0.95 + 0.85 * math.exp(-i / 25) for i in range(120)], vals)).findings
    assert (finding.cause, "%" in finding.summary) == ("overfitting", False)


def test_a_loss_that_never_moves_is_a_doubt(tmp_path: Path) -> None:
    """At the logarithm of no number of classes, nobody knows whether it could fall."""
    found = diagnosis_of(tmp_path, lines(steady(1, 60, 1.9, 0.004)))
    assert found.status == "not_enough_evidence"
    assert "1.901 from step 0" in found.missing[0].observation


def test_few_prints_of_many_steps_are_enough(tmp_path: Path) -> None:
    """Ten prints over a thousand steps at ln(10) are stuck."""
    text = "\n".join(f"step {100 * i} loss {math.log(10) * w:.4f}" for i, w in enumerate(steady(1, 11, 1.0, 0.001)))
    assert causes_of(tmp_path, text) == ["loss_stuck"]


def test_a_first_mean_of_nothing_is_no_loss(tmp_path: Path) -> None:
    """A meter that is printed before the first step shows nan."""
    assert causes_of(tmp_path, lines([math.nan, *falling(1, 40)])) == ["healthy"]


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
