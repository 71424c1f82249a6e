"""Is looking instant? Collecting, help and the reading commands never import torch."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import pytest

from tests.plugin.folders import ROOT

HEAVY = {"torch", "sklearn", "matplotlib"}

PYTEST = ["-m", "pytest", "--collect-only", "-q", "-s", "-p", "no:cacheprovider"]
"""Without -s pytest would swallow what Python says about imports."""
GPU_EXAM = ["-m", "harness.cli.main"]

MAX_RATIO = 3.0
"""Collecting all scenarios against collecting an empty folder. Measured: 1.4. An import of torch makes it 8."""

PAIRS = 3


@pytest.mark.parametrize(
    "words",
    [
        [*PYTEST, "scenarios/"],
        [*PYTEST, "scenarios/", "--device", "cpu"],
        ["-m", "pytest", "scenarios/", "-s", "--help"],
        [*GPU_EXAM, "--help"],
        [*GPU_EXAM, "compare", "--help"],
        [*GPU_EXAM, "diagnose", "--help"],
        [*GPU_EXAM, "doctor", "--help"],
        [*GPU_EXAM, "verify", "--help"],
        [*GPU_EXAM, "replay", "--help"],
        [*GPU_EXAM, "verify", "absent"],
        [*GPU_EXAM, "diagnose", "absent"],
        ["train.py", "--help"],
        ["train.py", "--seed", "x"],
    ],
    ids=" ".join,
)
def test_torch_stays_out(words: list[str]) -> None:
    """The list of imports that Python itself writes holds nothing heavy."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
    assert "harness" in imported
    assert imported & HEAVY == set()


def test_collecting_is_fast(tmp_path: Path) -> None:
    """All scenarios are collected in little more time than pytest needs for nothing at all, measured in pairs."""
    (tmp_path / "pytest.ini").touch()
    pairs = [(seconds(ROOT, "scenarios/"), seconds(tmp_path)) for _ in range(PAIRS)]
    assert median(ours / bare for ours, bare in pairs) <= MAX_RATIO, pairs


def seconds(folder: Path, *words: str) -> float:
    """Return how long pytest collects."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    started = time.perf_counter()
    subprocess.run([sys.executable, *PYTEST, *words], cwd=folder, env=environ, capture_output=True, check=False)
    return time.perf_counter() - started
