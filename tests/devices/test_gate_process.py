"""The process of the self-test is never believed when it crashes, hangs, or prints anything but checks."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from harness.devices.gate import torch_process
from harness.devices.gate.torch_process import run_selftest, selftest_checks
from harness.observe.outcome import GateCheck
from tests.fakes.fake_nvml import mig_slice
from tests.running import gone


@pytest.mark.parametrize(
    ("code", "observed"),
    [
        ("import os; print('near the end', flush=True); os.abort()", "exit code -6: near the end"),
        ("import sys; sys.exit('libcuda is broken')", "not a list of checks: libcuda is broken"),
        ("print('hello')", "not a list of checks: hello"),
        ("print('[]')", "it made no check: []"),
        ("pass", "not a list of checks: no output"),
        ("raise SystemExit(7)", "exit code 7: no output"),
    ],
)
def test_broken_selftest_fails(code: str, observed: str) -> None:
    """A self-test that crashes or prints anything but checks is one failed check with its last lines."""
    (check,) = selftest_checks([sys.executable, "-c", code], os.environ, "cpu")
    assert check.outcome == "FAILED"
    assert observed in check.observed
    assert "harness.devices.selftest --device cpu" in check.remedy


def test_hung_selftest_leaves_no_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A self-test that hangs fails after its time limit, and its ranks end with it."""
    monkeypatch.setattr(torch_process, "TIME_LIMIT_S", 1.5)
    pid = tmp_path / "pid"
    (check,) = selftest_checks(["sh", "-c", f"sleep 60 & echo $! > {pid}; wait"], os.environ, "cpu")
    assert check.observed == "no result after 1.5 s: no output"
    assert gone(int(pid.read_text()))


def test_mig_instances_are_tested_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process can use one MIG instance only, so each gets a self-test of its own."""
    check = '[{"name": "n", "outcome": "PASSED", "observed": "\'$CUDA_VISIBLE_DEVICES\'", "expected": ""}]'
    command = ["sh", "-c", f"echo '{check}'"]
    monkeypatch.setattr(torch_process, "selftest_command", lambda kind, devices: command)
    ids = [mig_slice(0).uuid, mig_slice(1).uuid]
    checks = run_selftest("cuda", ids, os.environ)
    assert [check.observed for check in checks] == ids
    assert len({check.name for check in checks}) == 2


def test_failing_checks_are_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1 with a list of checks is the self-test's answer, not a crash."""
    bad = {"name": "n", "outcome": "FAILED", "observed": "o", "expected": "e"}
    code = f"import sys; print({json.dumps(json.dumps([bad]))}); sys.exit(1)"
    assert selftest_checks([sys.executable, "-c", code], os.environ, "cpu") == [GateCheck(**bad)]  # type: ignore[arg-type]
