"""Is the time of a step taken from the times of the lines, and only where it means something?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.logs.clocks import as_intervals, seconds_of
from harness.logs.normal import Point, Series
from tests.logs.asked import causes_of, log_of
from tests.logs.curves import falling

BEGIN = datetime(2025, 6, 3, 9, 0, 0, tzinfo=UTC)


def stamped(clock: Callable[[int], float], length: int = 240, line: str = "step {i} loss {v:.4f}") -> str:
    """Return a log whose lines stand at these seconds."""
    rows = []
    for i, value in enumerate(falling(1, length)):
        time = (BEGIN + timedelta(seconds=clock(i))).strftime("%Y-%m-%d %H:%M:%S")
        rows.append(f"{time} INFO " + line.format(i=i, v=value))
    return "\n".join(rows)


def test_lines_that_come_ever_later(tmp_path: Path) -> None:
    """Each step takes longer than the one before, and no time is printed."""
    assert causes_of(tmp_path, stamped(lambda i: 2 * i + 0.02 * i * i)) == ["step_time_drift"]


@pytest.mark.parametrize(
    "clock",
    [
        lambda i: 2 * i,
        lambda i: 2 * i + 60 * (i // 25),
        lambda i: 2 * i + 36000 * (i > 190),
        lambda i: 2 * i + 300 * (i > 0),
    ],
    ids=["regular", "evaluations", "a night", "first step"],
)
def test_lines_that_wait_for_other_things(clock: Callable[[int], float], tmp_path: Path) -> None:
    """Evaluations, a pause, a first step that compiles: the steps are as fast as before."""
    text = stamped(clock)
    assert "stamped_step_time_s" in log_of(tmp_path, text).runs[0].series
    assert causes_of(tmp_path, text) == ["healthy"]


@pytest.mark.parametrize(
    ("clock", "line"),
    [
        (lambda i: 0.05 * i, "step {i} loss {v:.4f}"),
        (lambda i: [1, 9, 40][i % 3] * i, "step {i} loss {v:.4f}"),
        (lambda i: 2 * i, "loss {v:.4f}"),
    ],
    ids=["too coarse", "irregular", "no step"],
)
def test_times_that_mean_nothing(clock: Callable[[int], float], line: str, tmp_path: Path) -> None:
    """A clock of seconds tells nothing of 0.05 s; lines at any time tell nothing; without a step nobody knows."""
    assert "stamped_step_time_s" not in log_of(tmp_path, stamped(clock, line=line)).runs[0].series


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        ("1970-01-01 00:00:01,5", 719163 * 86400 + 1.5),
        ("09:12:04", 33124),
        ("I0603", None),
        ("2025-13-45 10:00:00", None),
    ],
)
def test_stamps(stamp: str, seconds: float | None) -> None:
    """Dates count from the year 1; a time alone from midnight; what is no time is none."""
    assert seconds_of(stamp) == seconds


def test_a_clock_that_begins_anew(tmp_path: Path) -> None:
    """Where the step does not advance, an interval belongs to something else."""
    points = [Point(i, 10.0 * i, float(step), None, i) for i, step in enumerate([0, 1, 2, 2, 3, 4, 0, 1, 2, 3])]
    found = as_intervals(Series("elapsed_s", "wall", points))
    assert found is not None
    assert {point.value for point in found.points} == {10.0, 20.0}
