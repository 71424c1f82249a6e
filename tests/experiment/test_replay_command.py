"""Does a replay run the harness's own commands only, somewhere else, and to a clean end?"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from harness.errors import EvidenceError, LaunchError
from harness.experiment import replay_command
from harness.experiment.replay_command import replay_words, run_command

TRAIN = ["python", "train.py", "--seed", "42"]


@pytest.mark.parametrize(
    "command",
    [
        ["rm", "-rf", "/"],
        ["python"],
        ["python", "-c", "import os"],
        ["python", "-m", "os"],
        ["python", "-m", "harness_evil"],
        ["python", "-m", "harness.cli\n"],
        ["python", "-m", "harness/../evil"],
        ["python", "-I", "train.py"],
        ["python", "../train.py"],
        ["python", "/tmp/train.py"],
        ["./gpu-exam", "run"],
        ["torchrun", "train.py"],
        ["python3", "train.py"],
        ["\x1b[2J", "\ud800"],
    ],
)
@pytest.mark.parametrize("trust", [False, True])
def test_other_programs_are_never_run(command: list[str], trust: bool) -> None:
    """A log is no way to run a program, not even when its author is trusted."""
    with pytest.raises(EvidenceError, match="replay does not run") as error:
        replay_words(command, Path("out"), trust=trust)
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    "command",
    [
        ["gpu-exam", "watch", "--out", "x", "--", "sh"],
        ["gpu-exam", "--verbose", "watch", "--", "sh"],
        ["gpu-exam", "replay", "runs/1"],
        ["python", "-m", "harness.cli", "watch", "--", "sh"],
        ["python", "-m", "harness.cli.watch", "--", "sh"],
    ],
)
def test_commands_that_run_commands_are_never_run(command: list[str]) -> None:
    """A subcommand that takes a command itself would open the door again."""
    with pytest.raises(EvidenceError, match="runs another program in turn"):
        replay_words(command, Path("out"), trust=True)


@pytest.mark.parametrize(
    "flags",
    [
        ["--workload", "evil.py:factory"],
        ["--workload=/tmp/evil.py:factory"],
        ["--workload", "package.module:factory"],
        ["--config", "evil.yaml"],
        ["--resume", "evil.pt"],
    ],
)
def test_files_are_loaded_only_when_trusted(flags: list[str]) -> None:
    """A workload, a configuration or a checkpoint of the log's author can be code."""
    with pytest.raises(EvidenceError, match="only if you trust"):
        replay_words([*TRAIN, *flags], Path("out"), trust=False)
    assert replay_words([*TRAIN, *flags], Path("out"), trust=True)[-2:] == ["--out", "out"]


@pytest.mark.parametrize(
    "flags", [["--work", "evil.py:f"], ["--conf", "evil.yaml"], ["--unknown"], ["--", "x"], ["-h"], ["x\x1b"]]
)
def test_flags_that_are_not_spelled_out_are_refused(flags: list[str]) -> None:
    """An abbreviated or unknown flag could hide a file, so the command is not run."""
    with pytest.raises(EvidenceError, match=r"does not run this train\.py command") as error:
        replay_words([*TRAIN, *flags], Path("out"), trust=True)
    assert str(error.value).isprintable()


@pytest.mark.parametrize("out", [["--out", "/etc/x"], ["--out=/etc/x"]])
@pytest.mark.parametrize("start", [["gpu-exam"], ["python", "-m", "harness.cli"]])
def test_trusted_harness_command_writes_elsewhere(start: list[str], out: list[str]) -> None:
    """Another command of the harness needs trust, and writes to the new folder instead of the recorded one."""
    command = [*start, "run", *out, "--fast"]
    with pytest.raises(EvidenceError, match="only if you trust"):
        replay_words(command, Path("new"), trust=False)
    words = replay_words(command, Path("new"), trust=True)
    assert "/etc/x" not in " ".join(words)
    assert "new" in " ".join(words)


def test_harness_command_without_folder_is_refused() -> None:
    """Without --out there is nowhere to read the new numbers."""
    with pytest.raises(EvidenceError, match="no --out"):
        replay_words(["gpu-exam", "doctor"], Path("new"), trust=True)


def test_command_runs_in_the_project_folder() -> None:
    """The default runner waits for the command and keeps its status and the end of its output as one line."""
    code = "import os, sys; print('x' * 5000); print(os.getcwd(), '\\x1b[2J'); sys.exit(3)"
    end = run_command([sys.executable, "-c", code])
    assert end.status == 3
    assert end.tail.endswith(f"{Path(replay_command.__file__).parents[2]} [2J")
    assert len(end.tail) <= replay_command.TAIL_BYTES


@pytest.mark.parametrize("words", [["/absent/python"], [sys.executable, "a\0b"], [sys.executable, "\ud800"]])
def test_command_that_cannot_start_is_a_sentence(words: list[str]) -> None:
    """A program that is not there, or words that no system accepts, are no traceback."""
    with pytest.raises(LaunchError, match="cannot be started"):
        run_command(words)


def test_command_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that hangs is stopped at the time limit."""
    monkeypatch.setattr(replay_command, "TIME_LIMIT_S", 0.2)
    with pytest.raises(LaunchError, match=r"did not end within 0\.2 s"):
        run_command([sys.executable, "-c", "import time; time.sleep(600)"])


def test_processes_left_behind_are_killed(tmp_path: Path) -> None:
    """A child that outlives the command would hold the device: it is ended before it can do anything more."""
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    code = "import subprocess, sys; subprocess.Popen(sys.argv[2:], stdout=open(sys.argv[1], 'w'))"
    run_command([sys.executable, "-c", code, str(tmp_path / "pipe"), "sh", "-c", "sleep 5; echo still here"])
    assert os.read(reader, 1) == b""
    os.close(reader)
