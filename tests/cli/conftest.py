"""Small real runs that the commands read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.config import RunSpec, changed
from harness.launch import run

TINY: dict[str, Any] = {"size": "tiny", "max_steps": 10, "val_interval": 10, "device": "cpu"}

RUNS: dict[str, dict[str, Any]] = {
    "reference": {},
    "half": {"precision": "bf16", "observe": "full"},
    "plain": {"precision": "bf16"},
    "sick": {"precision": "bf16", "observe": "full", "fault": "needless_scaler_with_bf16"},
    "alone": {"precision": "bf16", "observe": "full", "fault": "autocast_cache_no_grad"},
    "other": {"precision": "bf16", "seed": 7, "lr": 0.01, "batch_size": 32},
}
"""Name -> what it has beside the tiny settings."""


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of a run by its name, executing it when it is first asked for."""
    root = tmp_path_factory.mktemp("runs")

    def folder(name: str) -> Path:
        if not (root / name).exists():
            assert run(changed(RunSpec(), TINY | RUNS[name]), root / name).state == "completed"
        return root / name

    return folder
