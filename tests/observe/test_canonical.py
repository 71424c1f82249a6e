"""Does one value have one JSON text, in the standard, whatever kind of number or container it came in?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.observe.canonical import canonical, digest, plain


@dataclass
class Point:
    """Stands for any dataclass."""

    x: float


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, "nan"),
        ({"a": [math.inf, (-math.inf,)]}, {"a": ["inf", ["-inf"]]}),
        ([np.float64("nan")], ["nan"]),
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (Path("a/b"), "a/b"),
        (Point(math.nan), {"x": "nan"}),
        ({3: {2, 1}}, {"3": [1, 2]}),
        (10**30, 10**30),
        (True, True),
        (None, None),
    ],
)
def test_plain_is_json_data(value: Any, expected: Any) -> None:
    """Numbers of any library become plain ones, and what JSON lacks becomes text."""
    assert plain(value) == expected


def test_unknown_object_is_our_own_bug() -> None:
    """An object without a JSON form is refused instead of being written as its address."""
    with pytest.raises(TypeError, match="a object cannot be written as JSON"):
        plain({"a": object()})


def test_canonical_text_is_unique() -> None:
    """The order of keys does not matter, spaces and non-ASCII letters do not occur."""
    assert canonical({"b": "\u00e4", "a": [1, 2.0]}) == b'{"a":[1,2.0],"b":"\\u00e4"}'
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 1, "b": 3})


def test_canonical_refuses_what_json_lacks() -> None:
    """A NaN that was not made plain is refused instead of written in a private dialect."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical(math.nan)
