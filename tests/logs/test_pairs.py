"""Is one line read into its names and numbers?"""

from __future__ import annotations

import math

import pytest

from harness.logs.names import meaning_of
from harness.logs.pairs import number_of
from tests.logs.asked import row_of

NAMES = {
    "train_loss": ("loss", "train"),
    "Loss/val": ("loss", "val"),
    "eval_loss": ("loss", "val"),
    "valid_loss": ("loss", "val"),
    "ValLoss": ("loss", "val"),
    "train_loss_step": ("loss", "train"),
    "lm loss": ("loss", ""),
    "Average training loss": ("loss", "train"),
    "box_loss": ("part", ""),
    "train/box_loss": ("part", "train"),
    "best_val_loss": ("", ""),
    "val_acc": ("metric", "val"),
    "Acc@1": ("metric", ""),
    "metrics/mAP50-95(B)": ("metric", "val"),
    "eval_wer": ("metric", "val"),
    "gnorm": ("grad_norm", ""),
    "loss_scale": ("loss_scale", ""),
    "learning_rate": ("lr", ""),
    "tok/sec": ("throughput", ""),
    "RunningAvgSamplesPerSec": ("", ""),
    "CurrSamplesPerSec": ("throughput", ""),
    "data_time": ("data_time_s", ""),
    "max_mem": ("memory", ""),
    "eta": ("", ""),
    "v_num": ("", ""),
}


@pytest.mark.parametrize("key", NAMES)
def test_names(key: str) -> None:
    """Each name has its meaning and its split."""
    meaning = meaning_of(key)
    assert (meaning.name, meaning.split if meaning.name else "") == NAMES[key]


@pytest.mark.parametrize(
    ("key", "better"),
    [("val_acc", True), ("bbox_mAP", True), ("bleu", True), ("ppl", False), ("val_wer", False), ("error", False)],
)
def test_which_way_a_metric_is_better(key: str, better: bool) -> None:
    """More accuracy is better, less perplexity is."""
    assert meaning_of(key).more_is_better is better


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("tps: 7,304", "tps", 7304),
        ("loss: 1e+30", "loss", 1e30),
        ("loss=-0.25,", "loss", -0.25),
        ("loss: tensor(0.51, device='cuda:0')", "loss", 0.51),
        ("'loss': '1.25'", "loss", 1.25),
        ("lr=[0.0001, 0.001]", "lr", 0.0001),
        ("dt: 120.50ms", "dt", 0.1205),
        ("iter time: 131 ms", "iter time", 0.131),
        ("loss=0,53;", "loss", 0.53),
        ("accuracy: 71.2%", "accuracy", 71.2),
        ("memory: 9.46GiB(64.99%)", "memory", 9.46),
        ("loss inf", "loss", math.inf),
        ("loss: -inf", "loss", -math.inf),
    ],
)
def test_values(text: str, key: str, value: float) -> None:
    """Thousands, exponents, brackets, quotes, units, decimal commas."""
    found = {pair.key: pair.value for pair in row_of(text).pairs}
    assert found[key] == pytest.approx(value)


@pytest.mark.parametrize(
    "text", ["time: 0:05:10", "loss.py:133: warning", "python 3.10.1", "see http://x/loss=none", "loss_fn: L1"]
)
def test_what_is_no_value(text: str) -> None:
    """Durations, line numbers, versions."""
    assert not [pair for pair in row_of(text).pairs if pair.key in {"time", "loss"}]


@pytest.mark.parametrize("text", ["1_000", "", "abc", "1.2.3", "--1"])
def test_what_is_no_number(text: str) -> None:
    """Python accepts some of these; logs do not write them."""
    assert number_of(text) is None


def test_sections_of_a_line() -> None:
    """The word between the numbers says what follows."""
    pairs = row_of("Epoch 3 | Train | loss 0.5 | acc 0.8 | Val | loss 0.6 | acc 0.7").pairs
    assert [(pair.key, pair.split) for pair in pairs[1:]] == [
        ("loss", "train"),
        ("acc", "train"),
        ("loss", "val"),
        ("acc", "val"),
    ]


@pytest.mark.parametrize(
    ("text", "batch"),
    [
        ("[  50/1251 (  4%)] loss 1", (50, 1251)),
        ("Epoch(train)  [1][  50/1051] loss: 1", (50, 1051)),
        ("Epoch 3/10 loss 1", None),
    ],
)
def test_counters(text: str, batch: tuple[int, int] | None) -> None:
    """A position in an epoch is told from the epoch itself."""
    assert row_of(text).batch == batch
