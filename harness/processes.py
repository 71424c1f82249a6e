"""How does a command run to its end, whatever it does? In a session of its own, with a limit, and nothing is left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness.errors import LaunchError


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it printed."""

    code: int
    """Exit code; negative when a signal ended it, as after a time limit."""
    stdout: bytes
    stderr: bytes
    """Empty, as ``stdout``, when both went to a file of the caller."""
    timed_out: bool


def finish(
    command: Sequence[str],
    limit_s: float,
    *,
    cwd: Path,
    environ: Mapping[str, str] | None = None,
    output: IO[bytes] | None = None,
) -> Ended:
    """Run ``command`` without input, wait at most ``limit_s`` seconds, and kill whatever is left of its process group.

    Also after a normal end or an interrupt of the caller: a rank or a data worker that outlives its parent would hold
    the device. What starts a session of its own further down must watch its parent, as the fork server does.
    ``output`` takes both streams as they come. LaunchError when the command cannot be started.
    """
    with contextlib.ExitStack() as files:
        # Files, because a pipe ends only when the last grandchild has closed it, and may be full before.
        out = output or files.enter_context(tempfile.TemporaryFile())
        err = subprocess.STDOUT if output else files.enter_context(tempfile.TemporaryFile())
        process = _start(command, cwd=cwd, env=environ, stdout=out, stderr=err)
        timed_out = False
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            kill_group(process.pid)
            code = process.wait()
        told = [b"" if output or isinstance(stream, int) else _all_of(stream) for stream in (out, err)]
    return Ended(code, told[0], told[1], timed_out)


def kill_group(leader: int, sent: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a process that leads its group, and to all others in it; nothing when none is left."""
    # macOS answers EPERM for a group of which only the unreaped leader is left.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, sent)


def _start(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None, stdout: IO[bytes], stderr: IO[bytes] | int
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise LaunchError(f"{command[0]} cannot be started: {error}") from error


def _all_of(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()
