"""Do ``gpu-exam verify`` and ``replay`` say whether evidence is intact, and whether its numbers come out again?"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.config import RunSpec, argv, changed
from harness.observe.chain import Tolerance
from harness.observe.evidence import Entry, EvidenceLog
from harness.runs import read_run
from tests.cli.conftest import TINY

RunFolder = Callable[[str], Path]

SPEC = changed(RunSpec(), TINY)


@pytest.fixture
def evidence(run_folder: RunFolder, tmp_path: Path) -> Path:
    """Evidence of one run: its command, its loss, and its records as an artefact."""
    folder = tmp_path / "evidence"
    write(folder, read_run(run_folder("reference")).value("loss"), argv(SPEC), run_folder("reference"))
    return folder


def write(folder: Path, loss: float | None, command: list[str], run: Path) -> str:
    """Write evidence and return its head."""
    assert loss is not None
    folder.mkdir()
    shutil.copy(run / "rank0.jsonl", folder / "rank0.jsonl")
    with EvidenceLog.open(folder) as log:
        entry = Entry(
            command=command,
            environment=log.environment({"python": "3"}),
            expected="the same loss",
            observed=loss,
            verdict="PASSED",
            subject="reference",
            tolerance=Tolerance(relative=1e-3),
            values={"loss": loss},
            artifacts=[Path("rank0.jsonl")],
        )
        log.append(entry)
        return log.close(1, 1)


def test_intact(evidence: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Intact evidence is exit code 0, with what was executed and the head."""
    assert main(["verify", str(evidence)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1 of 1 planned checks executed"
    assert lines[1].startswith("intact: 2 records, head ")
    assert len(lines[1].split()[-1]) == 64


def edit_number(folder: Path) -> None:
    """Change a number in the log."""
    path = folder / "evidence.jsonl"
    path.write_text(path.read_text().replace('"PASSED"', '"FAILED"'))


def cut_end(folder: Path) -> None:
    """Remove the terminal record."""
    path = folder / "evidence.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def edit_artefact(folder: Path) -> None:
    """Change a file beside the log."""
    with (folder / "rank0.jsonl").open("a") as file:
        file.write("\n")


def garbage(folder: Path) -> None:
    """Replace the log by bytes."""
    (folder / "evidence.jsonl").write_bytes(bytes(range(256)))


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (edit_number, "line 2: the content does not match its hash"),
        (cut_end, "there is no terminal record"),
        (edit_artefact, "line 2: artefact 'rank0.jsonl' was changed"),
        (lambda folder: (folder / "rank0.jsonl").unlink(), "line 2: artefact 'rank0.jsonl' is missing"),
        (garbage, "line 1: not a record"),
        (lambda folder: (folder / "evidence.jsonl").unlink(), "there is no evidence file"),
        (shutil.rmtree, "there is no evidence file"),
    ],
    ids=["edited", "cut", "artefact edited", "artefact removed", "garbage", "no log", "no folder"],
)
def test_not_intact(
    evidence: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], None], problem: str
) -> None:
    """Every damage is exit code 1 and named with its line; nothing is a traceback."""
    damage(evidence)
    assert main(["verify", str(evidence)]) == 1
    out = capsys.readouterr().out
    assert problem in next(line for line in out.splitlines() if line.startswith("problem: "))
    assert out.splitlines()[-1].startswith("NOT intact: ")


def test_head_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without records there is no head."""
    main(["verify", str(tmp_path)])
    assert capsys.readouterr().out.splitlines()[-1] == "NOT intact: 0 records, head none"


def test_head_kept_elsewhere(run_folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A chain that was written anew is found out by the head that was noted."""
    run = run_folder("reference")
    heads = [write(tmp_path / name, loss, argv(SPEC), run) for name, loss in (("first", 1.0), ("second", 2.0))]
    assert main(["verify", str(tmp_path / "first"), "--head", heads[0]]) == 0
    assert main(["verify", str(tmp_path / "second"), "--head", heads[0]]) == 1
    assert "this is another chain" in capsys.readouterr().out


def test_replay_gives_the_same_number(evidence: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The recorded command runs again in a process of its own, and the loss is the same."""
    assert main(["replay", str(evidence), "--record", "2"]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["record", "number", "outcome", "recorded", "now", "why"]
    assert row.split()[:3] == ["2", "loss", "PASSED"]
    assert row.split()[3] == row.split()[4]


def test_replay_finds_a_number_that_was_made_up(
    run_folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A chain can be intact and its number invented: the new run tells."""
    write(tmp_path / "made", 0.001, argv(SPEC), run_folder("reference"))
    assert main(["verify", str(tmp_path / "made")]) == 0
    assert main(["replay", str(tmp_path / "made")]) == 1
    assert "FAILED" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    "command", [["rm", "-rf", "/"], ["python", "train.py", "--workload", "evil.py:build"], ["python", "train.py", "-h"]]
)
def test_replay_of_a_command_that_must_not_run(
    run_folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    """Such a record is an ERROR that says why, and exit code 1."""
    write(tmp_path / "evil", 1.0, command, run_folder("reference"))
    assert main(["replay", str(tmp_path / "evil")]) == 1
    assert "ERROR" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("damage", "flags", "sentence"),
    [
        (edit_number, [], "the content does not match its hash"),
        (garbage, [], "not a record"),
        (shutil.rmtree, [], "there is no evidence file"),
        (lambda folder: None, ["--record", "9"], "there is no record 9; there are 1 to 3"),
        (lambda folder: None, ["--record", "0"], "there is no record 0; there are 1 to 3"),
        (lambda folder: None, ["--record", "1"], "--record 1 has nothing to repeat: it is the environment record"),
    ],
    ids=["edited", "garbage", "no folder", "record 9", "record 0", "no command"],
)
def test_replay_of_broken_evidence(
    evidence: Path,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[Path], None],
    flags: list[str],
    sentence: str,
) -> None:
    """Nothing runs from a broken chain: exit code 2 and one sentence."""
    damage(evidence)
    assert main(["replay", str(evidence), *flags]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("gpu-exam replay: error: ")
    assert sentence in captured.err
    assert (len(captured.err.splitlines()), captured.out) == (1, "")


@pytest.mark.parametrize("command", ["verify", "replay"])
def test_control_characters_reach_no_terminal(evidence: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    """Who wrote the log cannot steer the terminal of who reads it."""
    path = evidence / "evidence.jsonl"
    lines = path.read_text().splitlines()
    data = json.loads(lines[1]) | {"environment": "\x1b[2J\u202e"}
    path.write_text("\n".join([lines[0], json.dumps(data), lines[2], ""]))
    assert main([command, str(evidence)]) in {1, 2}
    captured = capsys.readouterr()
    assert (captured.out + captured.err).isascii()
    assert "\x1b" not in captured.out + captured.err
