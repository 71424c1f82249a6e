"""How does a run start in 20 ms? A server that has imported torch once forks a fresh child for each rank.

The server reads one JSON request a line from its standard input and answers on the descriptor that
its first argument names. It never touches CUDA and starts no thread of its own, so a forked child is
as clean as a new process. When its input ends, because the caller is gone, it kills every process
tree that it started.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

PRELOADED = ("torch._dynamo", "torch.optim.lr_scheduler", "sklearn.datasets", "harness.engine.run")
"""What almost every run imports."""

PRCTL = getattr(ctypes.CDLL(None), "prctl", lambda *_: 0)
"""A system call of Linux; where it is absent the launcher alone kills the ranks of a dead server."""

PR_SET_PDEATHSIG = 1
"""Source: linux/prctl.h."""


def serve(answers_fd: int) -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(answers_fd, "w")
    for name in PRELOADED:
        __import__(name)
    wakeup = _wake_on_child_exit()
    children: dict[int, str] = {}
    _answer(answers, event="ready")
    buffer = b""
    while True:
        readable, _, _ = select.select([0, wakeup], [], [])
        if wakeup in readable:
            os.read(wakeup, 4096)
            _reap(children, answers)
        if 0 in readable:
            data = os.read(0, 65536)
            if not data:
                break
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                request = json.loads(line)
                pid = _fork(request, answers)
                children[pid] = request["id"]
                _answer(answers, event="started", id=request["id"], pid=pid)
    for pid in children:
        kill_tree(pid)


def kill_tree(pid: int) -> None:
    """Kill a rank and everything that it started: each rank leads a process group of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _fork(request: dict[str, Any], answers: Any) -> int:
    pid = os.fork()
    if pid == 0:
        from harness.engine.ending import run_to_end

        run_to_end(lambda: _child(request, answers))
    return pid


def _leave_server(answers: Any) -> None:
    """Lead a process group, and keep nothing of the server but what it has imported."""
    os.setsid()
    # Nobody would watch this process any more once the server has ended, in whatever way.
    PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL)
    answers.close()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _child(request: dict[str, Any], answers: Any) -> int:
    """Become the rank: directory, environment, output, run."""
    _leave_server(answers)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    if request["log"]:
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
    from harness.config import RunOptions, RunSpec
    from harness.engine.parallel import ranks_from_environment
    from harness.engine.run import execute
    from harness.strict_yaml import typed

    spec = typed(request["spec"], RunSpec, "request")
    options = typed(request["options"], RunOptions, "request")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return execute(spec, options, Path(request["folder"]), ranks_from_environment())


def _wake_on_child_exit() -> int:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer)
    return reader


def _reap(children: dict[int, str], answers: Any) -> None:
    while children:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        kill_tree(pid)
        if pid in children:
            _answer(answers, event="ended", id=children.pop(pid), code=os.waitstatus_to_exitcode(status))


def _answer(answers: Any, **message: Any) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
