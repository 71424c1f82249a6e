"""Each stage of the GPU check ends in its time, with everything that it has started, and is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli import gpu_check
from harness.cli.gpu_check import Stage
from tests.running import gone


def test_stage_that_is_late_is_told_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that goes on in the background would take the device from the next stage, which starts all the same."""
    pid = tmp_path / "pid"
    late = Stage("late", ["sh", "-c", f"sleep 600 & echo $! > {pid}; wait"], 1)
    planned = [late, Stage("good", ["echo", "hello"], 60), Stage("bad", ["false"], 60)]
    monkeypatch.setattr(gpu_check, "stages", lambda out, device: planned)
    assert gpu_check.run(["--out", str(tmp_path / "out")]) == 1
    told = json.loads((tmp_path / "out" / "summary.json").read_text())["stages"]
    assert [stage["state"] for stage in told] == ["TIMEOUT after 1 s", "PASSED", "FAILED: exit 1"]
    assert gone(int(pid.read_text()))
    assert (tmp_path / "out" / "1-good.log").read_text() == "hello\n"
    assert "TIMEOUT after 1 s" in capsys.readouterr().out
