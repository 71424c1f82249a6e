"""The runs that these tests share."""

from __future__ import annotations

import pytest

from harness.experiment.store import RunStore
from tests.gallery import shared_store


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """Return the runs of this session, each executed once."""
    return shared_store(tmp_path_factory)
