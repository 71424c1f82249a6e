"""The time of a step is the time of training: not of validation, checkpoints or the first lap."""

from __future__ import annotations

import math
from typing import Any

import pytest

from harness.devices.cpu import CpuDevice
from harness.engine import stopwatch as module
from harness.engine.stopwatch import Stopwatch


class Clock:
    """Stands for the time module; moves when it is told to."""

    now = 100.0

    def perf_counter(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock that the stopwatch reads."""
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


class Waits(CpuDevice):
    """A device that has half a second of work queued."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(0)
        self.clock = clock

    def synchronize(self) -> None:
        """Wait for it."""
        self.clock.now += 0.5


def timed(clock: Clock, *laps: tuple[int, float], device: Any = None) -> Stopwatch:
    """Return a stopwatch after laps of (step at the end, seconds)."""
    watch = Stopwatch(device or CpuDevice(0))
    for step, seconds in laps:
        clock.now += seconds
        watch.tick(step)
    return watch


def test_lap_is_steps_and_seconds(clock: Clock) -> None:
    """Since the last tick."""
    watch = timed(clock, (10, 5.0))
    clock.now += 2.0
    assert watch.tick(14) == (4, 2.0)


def test_first_lap_is_warm_up(clock: Clock) -> None:
    """Where there are others."""
    assert timed(clock, (10, 50.0)).step_time_s == 5.0
    assert timed(clock, (10, 50.0), (20, 10.0), (50, 30.0)).step_time_s == 1.0


def test_time_between_resume_and_tick_alone_counts(clock: Clock) -> None:
    """What was spent on a validation is forgotten."""
    watch = timed(clock, (10, 10.0), (20, 10.0))
    clock.now += 1000.0
    watch.resume()
    clock.now += 10.0
    watch.tick(30)
    assert watch.step_time_s == 1.0


def test_each_tick_waits_for_the_device(clock: Clock) -> None:
    """Queued work belongs to the lap that queued it."""
    watch = timed(clock, device=Waits(clock))
    assert watch.tick(1) == (1, 0.5)


def test_resumed_run_counts_from_its_step(clock: Clock) -> None:
    """The steps before were another process's."""
    watch = timed(clock)
    watch.start_at(100)
    clock.now += 4.0
    assert watch.tick(102) == (2, 4.0)


def test_no_step_has_no_time(clock: Clock) -> None:
    """A missing number is nan, never a division by zero."""
    assert math.isnan(timed(clock).step_time_s)
    assert math.isnan(timed(clock, (0, 5.0)).step_time_s)


def test_lap_without_time_is_no_division_by_zero(clock: Clock) -> None:
    """Two ticks within the clock's resolution."""
    watch = timed(clock)
    assert watch.tick(1) == (1, 1e-9)
