"""Folders of scenarios in which exam sessions run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugin.folders import CONFTEST, Exam

MODES = {"serial": [], "parallel": ["-n", "2"]}
"""How a session can be run; what it finds must not depend on it."""


@pytest.fixture
def exam(tmp_path: Path) -> Callable[..., Exam]:
    """Write a folder with these scenarios."""

    def write(code: str, conftest: str = CONFTEST) -> Exam:
        return Exam.of(tmp_path / "project", code, conftest)

    return write
