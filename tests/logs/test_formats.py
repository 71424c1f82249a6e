"""Is every format read into the same numbers, and judged alike?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs import curves
from tests.logs.asked import causes_of, log_of
from tests.logs.formats import EVERY, WITHOUT_VALIDATION

ROUNDING = 6e-3
"""Relative; the formats print three digits at least."""


@pytest.mark.parametrize("name", EVERY)
class TestFormat:
    """What holds of every format."""

    def test_its_losses_are_read(self, name: str, tmp_path: Path) -> None:
        """Each loss of the program, in one run, and hardly a line is left over."""
        curve = curves.healthy(5)
        log = log_of(tmp_path, EVERY[name](curve))
        (run,) = log.runs
        assert run.get("loss").values == pytest.approx(curve.loss, rel=ROUNDING)
        assert log.num_unused <= 2

    def test_its_evaluations_are_read(self, name: str, tmp_path: Path) -> None:
        """Each validation loss once, or one beside every training loss."""
        curve = curves.healthy(6)
        (run,) = log_of(tmp_path, EVERY[name](curve)).runs
        seen = run.get("val_loss").values
        assert (not seen) == (name in WITHOUT_VALIDATION)
        assert all(
            any(value == pytest.approx(wanted, rel=ROUNDING) for value in seen) for wanted in curve.val.values() if seen
        )

    def test_a_number_knows_its_line(self, name: str, tmp_path: Path) -> None:
        """The line of a loss is one that shows it."""
        text = EVERY[name](curves.healthy(7))
        (run,) = log_of(tmp_path, text).runs
        point = run.get("loss").points[30]
        line = text.split("\n")[point.line - 1].replace(",", ".")
        shown = (f"{point.value:.3g}"[:4], f"{point.value * 0.6:.4f}"[:4], "loss", "{")
        assert any(part in line for part in shown)

    def test_healthy_is_healthy(self, name: str, tmp_path: Path) -> None:
        """No finding in a run that learns."""
        assert [causes_of(tmp_path, EVERY[name](curves.healthy(seed))) for seed in range(3)] == [["healthy"]] * 3

    def test_a_lost_loss_is_found(self, name: str, tmp_path: Path) -> None:
        """A loss that is nan from the middle on."""
        assert causes_of(tmp_path, EVERY[name](curves.lost(2))) == ["loss_nan"]

    def test_a_divergence_is_found(self, name: str, tmp_path: Path) -> None:
        """A loss that climbs and stays."""
        assert causes_of(tmp_path, EVERY[name](curves.diverged(2))) == ["loss_divergence"]

    def test_overfitting_is_found(self, name: str, tmp_path: Path) -> None:
        """A validation loss that turns, where the format prints one."""
        wanted = "healthy" if name in WITHOUT_VALIDATION else "overfitting"
        assert causes_of(tmp_path, EVERY[name](curves.overfitted(2))) == [wanted]


def test_a_slow_loader_is_found_in_each_format_that_tells_of_it(tmp_path: Path) -> None:
    """Where a program prints how long it waits for data, the share is found."""
    curve = curves.healthy(1)
    curve.data_time = [0.6 * time for time in curve.step_time]
    names = ("timm", "mmdetection", "detectron", "imagenet")
    assert [causes_of(tmp_path, EVERY[name](curve)) for name in names] == [["input_pipeline"]] * len(names)


def test_slower_steps_are_found_in_each_format_that_times_them(tmp_path: Path) -> None:
    """Step times that double over the run, as times, rates, or differences of a clock."""
    curve = curves.healthy(1)
    curve.step_time = [time * (1 + 1.5 * i / 60) for i, time in enumerate(curve.step_time)]
    names = (
        "nanogpt",
        "nanochat",
        "megatron",
        "lightning_bar",
        "ultralytics",
        "key_values",
        "deepspeed",
        "keras_lines",
    )
    assert [causes_of(tmp_path, EVERY[name](curve)) for name in names] == [["step_time_drift"]] * len(names)
