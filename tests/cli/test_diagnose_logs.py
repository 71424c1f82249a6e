"""Does ``gpu-exam diagnose FILE...`` keep its contract for log files?"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from harness.cli.logs import diagnose_files
from harness.cli.main import main
from tests.logs.asked import written
from tests.logs.curves import falling, lines

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
    assert "not checked: overfitting" in line
    assert "fp16_overflow" in line


def test_several_logs_are_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The finding says in which file it is."""
    paths = [str(written(tmp_path, HEALTHY, "a.log")), str(written(tmp_path, LOST, "b.log"))]
    assert main(["diagnose", *paths]) == 1
    assert "b.log:21 " in capsys.readouterr().out


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


def test_known_findings_do_not_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line of the file of known findings covers the log that it names."""
    log, known = (
        written(tmp_path, LOST, "b.log"),
        written(tmp_path, "loss_nan at b.log: a test of the checkpoint\n", "k"),
    )
    assert main(["diagnose", str(log), "--known", str(known)]) == 0
    assert "known, judged harmless: " in capsys.readouterr().out
    assert main(["diagnose", str(written(tmp_path, LOST, "c.log")), "--known", str(known)]) == 1


def test_known_findings_beside_a_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is known stays known when the logs are compared, and so does that one is worse."""
    worse = written(tmp_path, lines(falling(3, 100, 6, 2.5)), "a.log")
    better = written(tmp_path, lines(falling(4, 100, 6, 2.0)), "b.log")
    known = written(tmp_path, "worse_than_reference at a.log: another seed\n", "known.txt")
    flags = ["--reference", str(better), "--known", str(known)]
    assert main(["diagnose", str(worse), *flags]) == 0
    assert "known but not found" not in capsys.readouterr().out
    known.write_text("loss_nan: a test\n", encoding="utf-8")
    main(["diagnose", str(written(tmp_path, LOST, "c.log")), *flags])
    out = capsys.readouterr().out
    assert any(line.startswith("known, judged harmless: ") and "loss_nan" in line for line in out.splitlines())


def fitting(out: str) -> bool:
    """Whether the words fit a screen."""
    rows = out.splitlines()
    return len(rows) <= 24 and max(len(row) for row in rows) <= 120


def test_findings_fit_a_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Many files with findings, and a log that lacks everything, are told in 24 lines of 120 columns."""
    monkeypatch.chdir(tmp_path)
    main(["diagnose", *[written(tmp_path, LOST, f"{n}.log").name for n in range(30)]])
    out = capsys.readouterr().out
    assert fitting(out)
    assert out.count("  confirm  ") == 1  # the same cause once more needs no advice again
    assert "and 14 more: loss_nan" in out
    main(["diagnose", written(tmp_path, "epoch 1 loss 0.7\n" * 2, "short.log").name])
    assert fitting(capsys.readouterr().out)


def test_everything_is_told_when_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All findings with their advice, all that is missing, and the lines of no use."""
    paths = [str(written(tmp_path, f"starting\n{LOST}", f"{n}.log")) for n in range(5)]
    diagnose_files(paths, None, json=False, verbose=True)
    out = capsys.readouterr().out
    assert out.count("  confirm  ") == 5
    assert "  missing  for underfitting" in out
    assert "1 of 23 line(s) were of no use" in out


def test_what_was_read_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which column was taken for the loss: a reader sees when it is the wrong one."""
    main(["diagnose", str(written(tmp_path, HEALTHY))])
    assert "; read: 60 x loss;" in capsys.readouterr().out
