"""Which checks were selected? Known to the process that collected them, needed by the one that writes the report.

Under xdist these are two processes, and a session that stops early has run only some of them: the
selection is written to a file as soon as it is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from harness.plugin.checks import CHECK
from harness.report.model import Check
from harness.report.store import replace_file

PLAN_NAME = "planned.json"


def write_plan(folder: Path, items: Iterable[pytest.Item]) -> None:
    """Write the rows of the selected checks; every xdist worker writes the same ones."""
    rows = [(item.nodeid, item.stash[CHECK]) for item in items if CHECK in item.stash]
    replace_file(folder / PLAN_NAME, msgspec.json.encode(rows))


def read_plan(folder: Path) -> dict[str, Check]:
    """Return pytest's id -> row of each selected check, in order; nothing when no selection was made."""
    path = folder / PLAN_NAME
    return dict(msgspec.json.decode(path.read_bytes(), type=list[tuple[str, Check]])) if path.exists() else {}
