"""Are the numbers of a line found, also in lines of which only the digits differ from one before?"""

from __future__ import annotations

import pytest

from harness.logs.names import meaning_of
from tests.logs.asked import row_of


def named(text: str) -> dict[tuple[str, str], float]:
    """Return the numbers of a line by what they mean and of which split they are."""
    return {(meaning_of(pair.key).name, pair.split): pair.value for pair in row_of(text).pairs}


LINES: dict[str, dict[tuple[str, str], float]] = {
    "Cost after iteration 100: 0.64": {("step", ""): 100, ("loss", ""): 0.64},
    "Training loss for epoch 3: 0.5": {("epoch", ""): 3, ("loss", "train"): 0.5},
    "validation loss at iteration 200 | lm loss value: 2.5E+00 |": {("step", ""): 200, ("loss", "val"): 2.5},
    "loss train: 1.9, val: 1.02": {("loss", "train"): 1.9, ("loss", "val"): 1.02},
    "Epoch   1/40: loss: train=0.5, val=0.6": {("epoch", ""): 1, ("loss", "train"): 0.5, ("loss", "val"): 0.6},
    "|    loss    | 12.3   |": {("loss", ""): 12.3},
    "step 4 | loss 3.1 | 3072.9 ms | 170612 tok/s": {
        ("step", ""): 4, ("loss", ""): 3.1, ("step_time_s", ""): 3.0729, ("throughput", ""): 170612,
    },
    "Test set: loss: 0.05, Accuracy: 9855/10000 (99%)": {("loss", "val"): 0.05, ("metric", "val"): 0.9855},
    "INFO step 7 loss 0.3": {("step", ""): 7, ("loss", ""): 0.3},
    "[12]\ttrain-logloss:0.31\teval-logloss:0.42": {("step", ""): 12, ("loss", "train"): 0.31, ("loss", "val"): 0.42},
    "Train: [3/300][200/1251] loss 0.5": {("epoch", "train"): 3, ("loss", "train"): 0.5},
    " 7: 3.456, 5.6 avg loss, 0.001 rate": {("loss", ""): 5.6},
    "avg_reader_cost: 0.82 s, avg_batch_cost: 1.17 s": {("data_time_s", ""): 0.82, ("step_time_s", ""): 1.17},
    "Epoch Time: 1m 31s": {("step_time_s", ""): 91},
    "epoch 2 Train/Val loss: 0.5/0.6": {("epoch", ""): 2, ("loss", "train"): 0.5, ("loss", "val"): 0.6},
    "completed step: 5, seconds: 1.4, loss: 7.1": {("step", ""): 5, ("elapsed_s", ""): 1.4, ("loss", ""): 7.1},
}  # fmt: skip


@pytest.mark.parametrize("text", LINES)
def test_a_line_is_read(text: str) -> None:
    """Each number has its meaning and its split."""
    found = named(text)
    for key, value in LINES[text].items():
        assert found.get(key, found.get((key[0], ""))) == pytest.approx(value)


def test_percents_are_no_counter() -> None:
    """``steps: 10%`` of a bar is no step."""
    assert ("step", "") not in named("steps: 10%|# | loss=0.12")


@pytest.mark.parametrize(
    ("first", "second", "value"),
    [("loss 1.25 x", "loss 9.75 x", 9.75), ("tps: 7,304", "tps: 9,111", 9111), ("loss=0,531;", "loss=1,531;", 1531)],
)
def test_a_shape_seen_before(first: str, second: str, value: float) -> None:
    """The second line of a shape is cut as the first was; only a decimal comma depends on a digit."""
    row_of(first)
    assert [pair.value for pair in row_of(second).pairs] == [value]


def test_a_counter_is_decided_for_each_line() -> None:
    """A position cannot be beyond its total: lines of one shape may differ in that."""
    assert [row_of(f"[{done}/50] loss 1").batch for done in (10, 60, 20)] == [(10, 50), None, (20, 50)]


def test_a_counter_is_told_from_a_value_that_equals_it() -> None:
    """In the fifth batch of the fifth epoch the batch is still the batch."""
    assert row_of("Epoch 5:  16%|# | 5/30 [00:05<00:25, 1.0it/s, loss=0.5]").batch == (5, 30)
