"""Is every mistake one sentence, every exit code the documented one, and is the output safe for a pipe?"""

from __future__ import annotations

import errno
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli.main import COMMANDS, main
from harness.errors import DeviceError, EvidenceError, HarnessError, NotComparable, UsageError
from tests.cli.commands import LIMIT_S, start, without_reader

RunFolder = Callable[[str], Path]


@pytest.mark.parametrize(("words", "status"), [([], 2), (["--help"], 0), (["-h"], 0), (["help"], 0)])
def test_usage_lists_every_command(words: list[str], status: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command, and when asked, there is a line for each command."""
    assert main(words) == status
    out = capsys.readouterr().out
    assert out.isascii()
    assert [line.split()[1] for line in out.splitlines() if line.startswith("  gpu-exam ")] == list(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command(command: str) -> None:
    """Each command explains itself on standard output with exit code 0."""
    process = start(command, "--help")
    out, errors = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, errors) == (0, "")
    assert out.startswith(f"usage: gpu-exam {command}")
    assert out.isascii()


@pytest.mark.parametrize("word", ["frobnicate", "Diagnose", "--frob", ""])
def test_unknown_command(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown command names those that there are, on standard error."""
    assert main([word]) == 2
    captured = capsys.readouterr()
    hint = " (did you mean 'diagnose'?)" if word == "Diagnose" else ""
    assert captured.err == f"gpu-exam: unknown command {word!r}{hint}; there are: {', '.join(COMMANDS)}\n"
    assert captured.out == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_unknown_flag(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong flag is exit code 2 and one sentence, without the usage above it."""
    assert main([command, "x", "--frob"]) == 2
    said = f"gpu-exam {command}: error: unknown flag --frob; gpu-exam {command} --help lists what is accepted\n"
    assert capsys.readouterr().err == said


def fails_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make ``diagnose`` raise."""

    def run(_words: list[str]) -> int:
        raise error

    monkeypatch.setattr("harness.cli.diagnose.run", run)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (HarnessError("something"), 1),
        (DeviceError("no card"), 2),
        (UsageError("wrong"), 2),
        (EvidenceError("broken"), 2),
        (NotComparable(["seed: 1 and 2", "lr: 3 and 4"]), 2),
    ],
)
def test_errors_are_sentences(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: HarnessError, status: int
) -> None:
    """What a user can act on is one line on standard error, with the exit code of its kind."""
    fails_with(monkeypatch, error)
    assert main(["diagnose"]) == status
    assert capsys.readouterr().err == f"gpu-exam diagnose: error: {error}\n"


@pytest.mark.parametrize(("name", "said"), [("out/x.json", "out/x.json"), (None, "a file")])
def test_a_full_disk_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str | None, said: str
) -> None:
    """What cannot be written because the disk takes no more is no bug of ours."""
    fails_with(monkeypatch, OSError(errno.ENOSPC, "No space left on device", name))
    assert main(["diagnose"]) == 1
    expected = f"gpu-exam diagnose: error: {said} cannot be written: No space left on device\n"
    assert capsys.readouterr().err == expected


def test_another_failure_of_a_file_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that we should not have asked for is a bug."""
    fails_with(monkeypatch, FileNotFoundError(errno.ENOENT, "No such file", "x"))
    with pytest.raises(FileNotFoundError):
        main(["diagnose"])


def test_our_own_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug is not dressed up as a mistake of the user."""
    fails_with(monkeypatch, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        main(["diagnose"])


def test_interrupt_is_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C is one line and the exit code that shells use for it."""
    fails_with(monkeypatch, KeyboardInterrupt())
    assert main(["diagnose"]) == 130
    assert capsys.readouterr().err == "gpu-exam diagnose: stopped by Ctrl-C\n"


def test_interrupt_of_a_real_comparison(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a training run ends the command and its processes, without a traceback."""
    flags = ["--vary", "seed=1,2", "--size", "tiny", "--max-steps", "1000000", "--device", "cpu", "--val-interval", "0"]
    process = start("compare", *flags, "--out", str(tmp_path / "out"))
    while not list(tmp_path.glob("out/runs/*/rank0.jsonl")):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert (out, errors) == ("", "gpu-exam compare: stopped by Ctrl-C\n")
    assert not processes_with(str(tmp_path))


def processes_with(text: str) -> list[str]:
    """Return the command lines and folders of processes that mention a text."""
    found = [
        entry.read_bytes().decode(errors="replace") for entry in Path("/proc").glob("[0-9]*/cmdline") if alive(entry)
    ]
    return [line for line in found if text in line]


def alive(entry: Path) -> bool:
    """Tell whether a process is still there."""
    try:
        return bool(entry.read_bytes())
    except OSError:
        return False


@pytest.mark.parametrize("words", [["--help"], ["help"], ["verify", "absent"]], ids=" ".join)
def test_closed_pipe_is_quiet(words: list[str]) -> None:
    """``gpu-exam ... | head -0``: no traceback, and the exit code of a program that SIGPIPE ended."""
    assert without_reader(*words) == (141, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_closed_pipe_of_help_is_quiet(command: str) -> None:
    """The help of a command is written by argparse, which itself passes over an unbuffered pipe that is closed."""
    status, errors = without_reader(command, "--help")
    assert status in {0, 141}
    assert errors == ""


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_closed_pipe_of_a_result_is_quiet(run_folder: RunFolder, flags: list[str]) -> None:
    """So it is for a result."""
    assert without_reader("diagnose", str(run_folder("half")), *flags) == (141, "")


def test_output_is_ascii(run_folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with other characters in its name cannot break a terminal or a pipe."""
    named = tmp_path / "r\u00e9sum\u00e9\x1b[31m"
    named.symlink_to(run_folder("sick"))
    assert main(["diagnose", str(named)]) == 1
    captured = capsys.readouterr()
    assert (captured.out + captured.err).isascii()
    assert "\x1b" not in captured.out


def test_installed_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The installed script ends the process with the command's exit code."""
    from harness.cli.main import script

    monkeypatch.setattr(sys, "argv", ["gpu-exam", "frobnicate"])
    with pytest.raises(SystemExit) as stop:
        script()
    assert stop.value.code == 2


def test_torch_stays_out_of_reading_commands(run_folder: RunFolder) -> None:
    """Diagnosing and comparing recorded runs read files only."""
    code = "import sys; from harness.cli.main import main; main(sys.argv[1:]); sys.exit('torch' in sys.modules)"
    folders = [str(run_folder("plain")), str(run_folder("reference"))]
    for words in (["diagnose", folders[0], "--reference", folders[1]], ["compare", *folders]):
        process = start(code, *words, script="-c")
        _, errors = process.communicate(timeout=LIMIT_S)
        assert (process.returncode, errors) == (0, "")
