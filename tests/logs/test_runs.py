"""Which lines belong to one run?"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.logs.asked import diagnosis_of, log_of
from tests.logs.curves import falling, lines, steady


def test_epochs_without_a_number_are_one_run(tmp_path: Path) -> None:
    """The batch begins anew in each epoch, and the loss goes on."""
    losses = falling(1, 60)
    text = "\n".join(
        "\n".join(["Starting a new epoch", *[f"batch {i} loss {losses[10 * e + i]:.4f}" for i in range(10)]])
        for e in range(6)
    )
    assert len(log_of(tmp_path, text).runs) == 1


def test_a_resumed_training_is_one_run(tmp_path: Path) -> None:
    """The step begins anew after a checkpoint was loaded; the flat rest is no run that learns nothing."""
    text = lines(falling(1, 60, 6.0, 2.95)) + "\nloaded checkpoint\n" + lines(steady(2, 60, 2.94, 0.01))
    assert len(log_of(tmp_path, text).runs) == 1
    assert diagnosis_of(tmp_path, text).status == "healthy"


@pytest.mark.parametrize("end", [[], [math.nan] * 3, [9.0] * 20], ids=["healthy", "lost", "diverged"])
def test_a_training_from_scratch_is_another_run(end: list[float], tmp_path: Path) -> None:
    """The loss begins where the first one began."""
    assert len(log_of(tmp_path, lines(falling(1, 40) + end) + "\n" + lines(falling(2, 40))).runs) == 2


def test_validation_sets_have_a_mean(tmp_path: Path) -> None:
    """Two losses of evaluation beside one of training are two sets, no parts of a sum."""
    text = "\n".join(f"{{'step': {i}, 'loss': 2.0, 'eval_wiki_loss': 1.0, 'eval_code_loss': 3.0}}" for i in range(9))
    assert log_of(tmp_path, text).runs[0].get("val_loss").values == [2.0] * 9


def test_an_error_stands_for_a_loss(tmp_path: Path) -> None:
    """Only an RMSE is printed: it is what falls."""
    text = "\n".join(f"[{i}]\ttrain-rmse:{v:.4f}\tval-rmse:{v * 1.1:.4f}" for i, v in enumerate(falling(1, 30)))
    run = log_of(tmp_path, text).runs[0]
    assert (run.get("loss").key, run.get("val_loss").key) == ("train-rmse", "val-rmse")


def test_an_elbo_is_to_rise(tmp_path: Path) -> None:
    """Its negative is the loss."""
    text = "\n".join(f"epoch {i} ELBO {-100 * v:.3f}" for i, v in enumerate(falling(1, 40)))
    run = log_of(tmp_path, text).runs[0]
    assert run.get("loss").key == "-ELBO"
    assert run.get("loss").values[0] > run.get("loss").values[-1] > 0


def test_a_score_beside_both_losses_is_of_validation(tmp_path: Path) -> None:
    """Tables of notebooks print one accuracy, of the evaluation."""
    text = "\n".join(
        ["epoch,train_loss,valid_loss,accuracy", *[f"{i},{1 / (i + 1)},{1 / (i + 1)},0.{i}" for i in range(9)]]
    )
    assert log_of(tmp_path, text).runs[0].get("val_metric").key == "accuracy"


def test_a_printed_data_frame_has_an_index(tmp_path: Path) -> None:
    """The header has no name for the first column: every other one is still read by its own."""
    rows = [f"{i:<4d}{i:7d}{1 / (i + 1):12.6f}{2 / (i + 1):10.6f}" for i in range(12)]
    run = log_of(tmp_path, "\n".join(["    epoch  train_loss  val_loss", *rows])).runs[0]
    assert (run.get("loss").values[0], run.get("val_loss").values[0]) == (1.0, 2.0)
