"""How do values read?"""

from __future__ import annotations

import math
from typing import Any

import pytest

from harness.report.words import MAX_TEXT, clean, elapsed, flatten, measure, measures, number, slug, soft, uniquely


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (math.nan, "not finite"),
        (-math.inf, "not finite"),
        (0.0, "0"),
        (-0.0, "0"),
        (3, "3"),
        (65536.0, "65536"),
        (0.961538, "0.9615"),
        (1234.56, "1235"),
        (123456.7, "123457"),
        (0.0000123456, "1.235e-5"),
        (1.5e20, "1.500e20"),
        (-0.5, "-0.5000"),
    ],
)
def test_number(value: float | None, text: str) -> None:
    """Four significant digits; words for what is no number."""
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0123, "s", "12.30 ms"),
        (0.0000123, "s", "12.30 us"),
        (2.5, "s", "2.500 s"),
        (0.0, "s", "0 s"),
        (431_000_000, "bytes", "411.0 MiB"),
        (80 * 2**30, "bytes", "80 GiB"),
        (512, "bytes", "512 B"),
        (0, "bytes", "0 B"),
        (0.25, "share", "0.2500 share"),
        (None, "s", "-"),
        (math.inf, "bytes", "not finite"),
    ],
)
def test_measure(value: float | None, unit: str, text: str) -> None:
    """Bytes and seconds are read at a glance; other units stay."""
    assert measure(value, unit) == text


def test_measures_share_one_unit() -> None:
    """The largest number of a row chooses the unit for all of it."""
    assert measures([0.0001, 0.0125, None], "s") == (["0.1000", "12.50", "-"], "ms")


def test_measures_keep_text_and_survive_nan() -> None:
    """An observed word stays a word, and several NaN do not ask for ever more digits."""
    assert measures([math.nan, math.inf, "none", 0.5], "s") == (["not finite", "not finite", "none", "500"], "ms")


def test_measures_never_hide_a_difference() -> None:
    """Two different numbers never read the same."""
    texts, _ = measures([0.05, 0.0500001, None], "")
    assert texts == ["0.0500000", "0.0500001", "-"]


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b", "\\x1b"),
        ("\u202e", "\\u202e"),
        ("\U000e0041", "\\U000e0041"),
        ("\udc80", "\\udc80"),
        ("\uffff", "\\uffff"),
        ("\u05d0\u200d\u00e9", "\u05d0\u200d\u00e9"),
    ],
)
def test_clean(text: str, cleaned: str) -> None:
    """Invisible characters are spelled out; letters of every script stay."""
    assert clean(text) == cleaned


def test_clean_cuts_and_says_so() -> None:
    """A megabyte of message does not become a megabyte of page."""
    assert clean("x" * 1_000_000).startswith("x" * MAX_TEXT + " ... (cut here")


def test_soft_escapes_before_it_breaks() -> None:
    """Breaks are the report's own markup, and the only one."""
    assert soft("<a_b>/c") == "&lt;a_<wbr>b&gt;/c"


def test_soft_breaks_long_words_only() -> None:
    """A name of usual length breaks after underscores alone."""
    assert soft("scheduler_on_skipped_step") == "scheduler_<wbr>on_<wbr>skipped_<wbr>step"
    assert soft("x" * 30) == "x" * 24 + "<wbr>" + "x" * 6


@pytest.mark.parametrize(
    ("started", "ended", "text"),
    [
        ("2026-03-02T09:00:00+00:00", "2026-03-02T10:01:05+00:00", "1 h 1 min 5 s"),
        ("2026-03-02T09:00:00Z", "2026-03-02T09:00:00.2Z", "under 1 s"),
        ("2026-03-02T09:00:00Z", "2026-03-02T08:00:00Z", ""),
        ("2026-03-02T09:00:00Z", "2026-03-02T08:00:00", ""),
        ("", "later", ""),
    ],
)
def test_elapsed(started: str, ended: str, text: str) -> None:
    """The time between two times, or nothing when it cannot be known."""
    assert elapsed(started, ended) == text


@pytest.mark.parametrize(
    ("value", "rows"),
    [
        ({"a": {"b": 1, "c": None}, "d": True}, [("a.b", "1"), ("a.c", "-"), ("d", "yes")]),
        ({"gpus": ["H100", "H100"], "seeds": [1, 2]}, [("gpus", "2 x H100"), ("seeds", "1, 2")]),
        ({"ranks": [{"host": "x"}]}, [("ranks.0.host", "x")]),
        ({"empty": {}, "none": []}, [("empty", "-"), ("none", "-")]),
    ],
)
def test_flatten(value: Any, rows: list[tuple[str, str]]) -> None:
    """Nested data become rows with dotted names."""
    assert flatten(value) == rows


def test_flatten_ends_in_deep_data() -> None:
    """Data without end are cut by depth, not by the interpreter."""
    deep: dict[str, Any] = {}
    for _ in range(50):
        deep = {"a": deep}
    assert len(flatten(deep)) == 1


def test_slug_and_uniquely() -> None:
    """Ids hold safe characters only, and no two are equal."""
    unique = uniquely()
    names = [unique(slug(text, "b")) for text in ('"><script>', "a b", "A.B", "\u6a21", "")]
    assert names == ["script-b", "a-b-b", "a-b-b-2", "x-b", "x-b-2"]
