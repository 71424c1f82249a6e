"""Which points of a series are drawn?"""

from __future__ import annotations

import math

import pytest

from harness.report.model import Series
from harness.report.series import MAX_POINTS, drawable, ending, last_before_gaps, thin


def wave(length: int) -> Series:
    """Return a smooth series."""
    return [(step, math.sin(step / 50)) for step in range(length)]


@pytest.mark.parametrize("length", [0, 1, 199, 200])
def test_thin_keeps_a_short_series_whole(length: int) -> None:
    """What fits is not touched."""
    assert thin(wave(length)) == wave(length)


@pytest.mark.parametrize("length", [201, 399, 1000, 12_345])
def test_thin_bounds_a_long_series_and_keeps_its_ends(length: int) -> None:
    """At most 200 points, in order, from the first step to the last."""
    points = thin(wave(length))
    assert len(points) <= MAX_POINTS
    assert points == sorted(points)
    assert (points[0][0], points[-1][0]) == (0, length - 1)


def test_thin_keeps_a_spike_of_one_step() -> None:
    """The one step that matters is not averaged away."""
    series: Series = [(step, 100.0 if step == 777 else 1.0) for step in range(5000)]
    assert (777, 100.0) in thin(series)


def test_thin_keeps_a_gap_and_the_point_before_it() -> None:
    """The last finite value before a not-finite one is still there."""
    series: Series = [(step, None if step >= 777 else 1.0 / (step + 1)) for step in range(5000)]
    assert last_before_gaps(thin(series)) == [(776, 1.0 / 777)]


def test_thin_is_bounded_when_every_other_value_is_missing() -> None:
    """A series full of gaps is bounded too."""
    series: Series = [(step, None if step % 2 else float(step)) for step in range(5000)]
    assert len(thin(series)) <= MAX_POINTS


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf, 1e31, -1e31])
def test_drawable_refuses_what_overflows_an_axis(value: float | None) -> None:
    """Not finite, or so large that limits around it are not finite."""
    assert drawable(value) is None


@pytest.mark.parametrize(
    ("series", "words"),
    [
        ([(0, 2.0), (9, 0.125)], "0.125 at step 9"),
        ([(0, 2.0), (9, None)], "not finite at step 9"),
        ([(0, None), (9, None)], "no finite value"),
    ],
)
def test_ending_in_words(series: Series, words: str) -> None:
    """A series' end is told in words, for those who cannot see the plot."""
    assert ending(series) == words
