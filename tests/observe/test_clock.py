"""Is the time a UTC label that sorts?"""

from __future__ import annotations

import re

from harness.observe.clock import utc_now


def test_time_is_utc_and_sorts_as_text() -> None:
    """The format has a fixed width, so the order of texts is the order of times."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", utc_now())
