"""Guards of all tests of observers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.observe.attached import patched


@pytest.fixture(autouse=True)
def torch_is_left_as_it_was() -> Iterator[None]:
    """Fail a test that leaves a hook or a replaced function behind."""
    before = patched()
    yield
    assert patched() == before
