"""Does each rule keep its contract? A new file in harness/logs/rules is tested here the moment it exists."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from harness.diagnose.finding import Category, Finding
from harness.logs.base import LOG_RULES, LogRule
from harness.logs.normal import LoggedRun
from tests.logs.asked import diagnosis_of
from tests.logs.curves import falling, lines
from tests.logs.test_faults import FAULTY
from tests.logs.test_scaler import apex


def spiky() -> str:
    """Four jumps that return."""
    losses = falling(1, 300)
    for index in (90, 140, 200, 260):
        losses[index] *= 3
    return lines(losses)


SHOWN = {cause: training(1) for training, cause in FAULTY.items()} | {
    "loss_spikes": spiky(),
    "fp16_overflow": "\n".join(apex(2.0**power) for power in range(15, -2, -1)),
}
"""Cause -> a log that shows it."""


@pytest.mark.parametrize("name", LOG_RULES.names())
class TestLogRule:
    """The contract of every rule."""

    def test_it_is_complete(self, name: str) -> None:
        """A category, what it needs, what to log, and a log that shows it."""
        rule = LOG_RULES.load(name)
        assert isinstance(rule, LogRule)
        assert rule.category in get_args(Category)
        assert rule.needs
        assert rule.to_log
        assert name in SHOWN

    def test_its_finding_is_whole(self, name: str, tmp_path: Path) -> None:
        """Every sentence is there; every number has a bound, a file and a line."""
        (finding,) = diagnosis_of(tmp_path, SHOWN[name]).findings
        assert isinstance(finding, Finding)
        assert finding.cause == name
        assert 0 < finding.confidence <= 1
        assert all([finding.summary, finding.confirm, finding.action, finding.evidence])
        for evidence in finding.evidence:
            file, _, line = evidence.source.rpartition(":")
            assert (Path(file).is_file(), line.isdigit()) == (True, True)
            assert evidence.threshold
            assert evidence.name

    def test_it_is_silent_without_evidence(self, name: str) -> None:
        """An empty run gives no finding and cannot be judged."""
        rule, empty = LOG_RULES.load(name), LoggedRun("x")
        assert rule.judge(empty) is None
        assert not rule.can_judge(empty)
