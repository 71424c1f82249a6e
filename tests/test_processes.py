"""A command ends with everything that it started: in time, at its limit, or when its caller is stopped."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from harness.errors import LaunchError
from harness.processes import Ended, finish
from tests.running import gone

STARTS_GRANDCHILD = "sleep 600 & echo $$ $! > pids; {}"
"""A shell that leaves its own process id and that of its child in a file, and then does something else."""


def shell(folder: Path, then: str, limit_s: float = 60) -> Ended:
    """Finish a shell that has started a sleeping child."""
    return finish(["sh", "-c", STARTS_GRANDCHILD.format(then)], limit_s, cwd=folder)


def noted(folder: Path) -> list[int]:
    """Return the process ids of the shell and of its child."""
    return [int(word) for word in (folder / "pids").read_text().split()]


@pytest.mark.parametrize(
    ("then", "limit_s", "code", "timed_out"),
    [
        ("exit 3", 60, 3, False),
        ("wait", 1, -9, True),
        ("kill -TERM $$", 60, -15, False),
        ("trap '' TERM; wait", 1, -9, True),
    ],
)
def test_grandchild_ends_with_the_command(
    tmp_path: Path, then: str, limit_s: float, code: int, timed_out: bool
) -> None:
    """However the command ends; a shell whose child holds its output open is not waited for."""
    ended = shell(tmp_path, then, limit_s)
    assert (ended.code, ended.timed_out) == (code, timed_out)
    assert all(gone(pid) for pid in noted(tmp_path))


def test_interrupt_of_the_caller_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C reaches the caller alone, because the command has a session of its own."""

    def interrupted(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        monkeypatch.undo()
        while not (tmp_path / "pids").exists() or len(noted(tmp_path)) < 2:
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        shell(tmp_path, "wait")
    assert all(gone(pid) for pid in noted(tmp_path))


def test_output_and_complaints_are_kept_apart(tmp_path: Path) -> None:
    """Whole, also what no pipe would hold, and what was printed before the limit."""
    code = "import os, time; os.write(1, b'x' * 200_000); os.write(2, b'why'); time.sleep(600)"
    ended = finish([sys.executable, "-c", code], 2, cwd=tmp_path)
    assert (ended.stdout, ended.stderr, ended.timed_out) == (b"x" * 200_000, b"why", True)


def test_both_streams_go_to_a_file_of_the_caller(tmp_path: Path) -> None:
    """In the order in which they were printed."""
    with tempfile.TemporaryFile() as output:
        ended = finish(["sh", "-c", "echo one; echo two >&2; echo three"], 60, cwd=tmp_path, output=output)
        output.seek(0)
        assert output.read() == b"one\ntwo\nthree\n"
    assert ended == Ended(0, b"", b"", timed_out=False)


def test_command_has_no_input_and_the_given_environment(tmp_path: Path) -> None:
    """Nobody is there to answer a question."""
    ended = finish(["/bin/sh", "-c", "cat; echo $A"], 60, cwd=tmp_path, environ={"A": "b"})
    assert ended.stdout == b"b\n"


@pytest.mark.parametrize("command", [["/absent"], ["sh", "a\0b"]])
def test_command_that_cannot_start_is_one_sentence(command: list[str], tmp_path: Path) -> None:
    """It names the program."""
    with pytest.raises(LaunchError, match=f"{command[0]} cannot be started: "):
        finish(command, 60, cwd=tmp_path)
