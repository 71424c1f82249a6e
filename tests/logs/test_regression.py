"""Is a run that ends worse than its reference told apart from one that is as good?"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.diagnose.finding import Diagnosis
from harness.logs.read import read_log
from harness.logs.regression import regressions
from tests.logs.asked import written
from tests.logs.curves import epochs, falling, lines


def compared(folder: Path, suspect: str, reference: str) -> Diagnosis:
    """Compare two texts."""
    return regressions(read_log(written(folder, suspect, "a.log")), read_log(written(folder, reference, "b.log")))


def test_equal_runs_are_healthy(tmp_path: Path) -> None:
    """Fifty pairs of seeds of one training: none is a regression."""
    pairs = [(lines(falling(seed, 100)), lines(falling(seed + 1000, 100))) for seed in range(50)]
    assert [f for a, b in pairs for f in compared(tmp_path, a, b).findings] == []


@pytest.mark.parametrize("seed", range(5))
def test_a_worse_end_is_found(seed: int, tmp_path: Path) -> None:
    """A loss that ends 15 % higher."""
    found = compared(tmp_path, lines(falling(seed, 100, 6, 2.3)), lines(falling(seed + 50, 100, 6, 2.0)))
    assert [(f.cause, f.category) for f in found.findings] == [("worse_than_reference", "precision")]


def test_a_better_end_is_healthy(tmp_path: Path) -> None:
    """Only what is worse is a regression."""
    assert compared(tmp_path, lines(falling(1, 100, 6, 1.5)), lines(falling(2, 100, 6, 2.0))).status == "healthy"


def test_runs_are_compared_at_a_step_that_both_have(tmp_path: Path) -> None:
    """The first half of a training is not worse than the whole."""
    whole = falling(1, 200)
    assert compared(tmp_path, lines(whole[:100]), lines(whole)).status == "healthy"


def test_worse_validation_alone(tmp_path: Path) -> None:
    """The same training loss with a worse accuracy is a matter of generalisation."""
    train = falling(1, 40)
    good, bad = [0.5 + 0.01 * i for i in range(40)], [0.5 + 0.006 * i for i in range(40)]
    (finding,) = compared(tmp_path, epochs(train, train, bad), epochs(train, train, good)).findings
    assert (finding.category, finding.evidence[0].name) == ("generalisation", "val_metric_regression")


def test_nothing_to_compare(tmp_path: Path) -> None:
    """Two losses are not enough."""
    assert compared(tmp_path, lines([1.0, 2.0]), lines([1.0, 2.0])).status == "not_enough_evidence"
