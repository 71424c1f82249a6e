"""How is a command watched? It runs as it would alone, with a folder on Python's path that lets the observers in."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from harness.errors import UsageError

SITE = Path(__file__).parent / "site"

PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that a scheduler or a person sends to the one process that he knows."""


def run(command: Sequence[str], folder: Path, level: str) -> int:
    """Run a command to its end; return its exit code, 128 + n when signal n ended it.

    Its input, output and terminal are its own. Ctrl-C reaches it from the terminal, and is left to it.
    """
    try:
        process = subprocess.Popen(command, env=environment(os.environ, command, folder, level))
    except OSError as error:
        raise UsageError(f"{command[0]}: cannot be started: {error.strerror}") from error
    with _signals_left_to(process):
        code = process.wait()
    return code if code >= 0 else 128 - code


def environment(own: Mapping[str, str], command: Sequence[str], folder: Path, level: str) -> dict[str, str]:
    """Return the environment of a watched command."""
    path = os.pathsep.join(filter(None, [str(SITE), own.get("PYTHONPATH", "")]))
    told = {"GPU_EXAM_WATCH": str(folder), "GPU_EXAM_WATCH_LEVEL": level, "GPU_EXAM_WATCH_COMMAND": shlex.join(command)}
    return {**own, **told, "PYTHONPATH": path}


@contextmanager
def _signals_left_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    def pass_on(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in PASSED_ON}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
