"""Does ``gpu-exam diagnose FILE...`` keep its contract for log files?"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from harness.cli.main import main
from tests.logs.asked import written
from tests.logs.curves import falling
from tests.logs.test_healthy import lines

HEALTHY = lines(falling(1, 60))
LOST = lines([*falling(1, 20), math.nan, math.nan])


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [(HEALTHY, "healthy", 0), (LOST, "diagnosed", 1), ("nothing here", "not_enough_evidence", 3)],
    ids=["healthy", "lost", "nothing"],
)
def test_log_status_and_exit_code(
    text: str, status: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words open with the status; --json holds it with the same fields as for run folders."""
    path = str(written(tmp_path, text))
    assert main(["diagnose", path]) == code
    assert capsys.readouterr().out.startswith(f"status: {status.replace('_', ' ')}")
    assert main(["diagnose", path, "--json"]) == code
    data = json.loads(capsys.readouterr().out)
    assert (data["status"], bool(data["findings"])) == (status, code == 1)
    for finding in data["findings"]:
        assert set(finding) >= {"category", "cause", "confidence", "evidence", "confirm", "action"}
        assert all(set(e) == {"name", "value", "unit", "threshold", "source"} for e in finding["evidence"])


def test_healthy_log_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was checked, and what could not be."""
    main(["diagnose", str(written(tmp_path, HEALTHY))])
    (line,) = capsys.readouterr().out.splitlines()
    assert "checked: loss_divergence" in line
    assert "not checked: fp16_overflow" in line


def test_several_logs_are_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The finding says in which file it is."""
    paths = [str(written(tmp_path, HEALTHY, "a.log")), str(written(tmp_path, LOST, "b.log"))]
    assert main(["diagnose", *paths]) == 1
    assert "b.log:21)" in capsys.readouterr().out


def test_log_against_a_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A loss that ends higher than the reference's is a finding; the reverse is none."""
    worse = str(written(tmp_path, lines(falling(3, 100, 6, 2.5)), "a.log"))
    better = str(written(tmp_path, lines(falling(4, 100, 6, 2.0)), "b.log"))
    assert main(["diagnose", worse, "--reference", better]) == 1
    assert "worse_than_reference" in capsys.readouterr().out
    assert main(["diagnose", better, "--reference", worse]) == 0


def test_unusable_files_are_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Binary, absent, or a folder beside a file: exit code 2 and what is accepted."""
    log = str(written(tmp_path, HEALTHY))
    binary = str(written(tmp_path, bytes(range(256)) * 9, "x.bin"))
    for words in ([binary], [log, "absent.log"], [log, str(tmp_path)], [log, "--reference", "absent.log"]):
        assert main(["diagnose", *words]) == 2
        assert "accepted" in capsys.readouterr().err


def test_findings_fit_a_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Many files with findings are told in fifty lines at most."""
    main(["diagnose", *[str(written(tmp_path, LOST, f"{n}.log")) for n in range(12)]])
    assert len(capsys.readouterr().out.splitlines()) <= 50
