"""How does a spec become a Run? The only code that starts training processes.

``run(spec)`` asks a warm fork server for one fresh process per rank, waits with a time limit, kills
the whole process tree of a run that is late or has lost a rank, and reads the run folder.
"""

from __future__ import annotations

import atexit
import math
import signal
import socket
import threading
import time
from pathlib import Path

import msgspec

from harness.config import RunOptions, RunSpec
from harness.errors import LaunchError, UsageError
from harness.fork_client import START_LIMIT_S, Server, caller_environment
from harness.processes import kill_group
from harness.runs import LATE, STOPPED, Run, read_run, write_exits

PEER_GRACE_S = 10.0
"""After one rank has died the others get this long to notice and to flush, then they are killed."""


def run(
    spec: RunSpec,
    folder: Path,
    options: RunOptions | None = None,
    *,
    echo: bool = False,
    environment: dict[str, str] | None = None,
    limit_s: float = math.inf,
) -> Run:
    """Execute a spec in fresh processes and return what it left; never raises for a run that fails.

    A folder that cannot be written, or that already holds a run, is a UsageError.

    ``echo`` shows rank 0's output instead of keeping it in a file; ``environment`` is set in the
    ranks before CUDA starts. A run that has a time limit of its own is killed when it is half as late
    again; any run is killed after ``limit_s`` seconds.
    """
    options = options or RunOptions()
    folder = _empty(folder.resolve())
    job = _Job(server(), spec, options, folder, echo)
    try:
        job.start(caller_environment() | (environment or {}))
        own = options.time_limit_s * 1.5 + PEER_GRACE_S if options.time_limit_s else math.inf
        job.wait(min(own, limit_s))
    finally:
        job.kill()
    write_exits(folder, job.exits)
    return read_run(folder, job.exits)


class _Job:
    """The processes of one run."""

    def __init__(self, server: Server, spec: RunSpec, options: RunOptions, folder: Path, echo: bool) -> None:
        self.server, self.spec, self.options, self.folder, self.echo = server, spec, options, folder, echo
        self.keys: dict[int, str] = {}
        self.pids: dict[int, int] = {}
        self.exits: dict[int, str] = {}
        self.ended: set[int] = set()

    def start(self, environment: dict[str, str]) -> None:
        """Ask for every rank."""
        port = _free_port()
        for rank in range(self.spec.devices):
            message = {
                "spec": msgspec.to_builtins(self.spec),
                "options": msgspec.to_builtins(self.options),
                "folder": str(self.folder),
                "cwd": str(Path.cwd()),
                "environment": environment | _torchrun_variables(rank, self.spec.devices, port),
                "log": None if self.echo and rank == 0 else str(self.folder / f"rank{rank}.log"),
            }
            self.keys[rank] = self.server.request(message)
        for rank, key in self.keys.items():
            answer = self.server.receive(key, START_LIMIT_S)
            if "pid" not in answer:
                raise LaunchError(f"the fork server ended before it had started rank {rank}")
            self.pids[rank] = answer["pid"]

    def wait(self, limit_s: float) -> None:
        """Wait for every rank; a late run, and the peers of a dead rank, are killed."""
        deadline = time.monotonic() + limit_s
        while len(self.ended) < len(self.keys):
            for rank in sorted(set(self.keys) - self.ended):
                answer = self.server.receive(
                    self.keys[rank], 0.02 if len(self.keys) > 1 else deadline - time.monotonic()
                )
                if answer:
                    self._note(rank, answer.get("code"))
                    if answer.get("code") != 0:
                        deadline = min(deadline, time.monotonic() + PEER_GRACE_S)
            if time.monotonic() > deadline and len(self.ended) < len(self.keys):
                self._stop(limit_s)
                return

    def kill(self) -> None:
        """Kill what is left; ranks that still run are asked first, so that they flush."""
        for rank in self.keys.keys() - self.pids.keys():
            # Ctrl-C may have come between the answer and its reading.
            answer = self.server.receive(self.keys[rank], 0.0)
            if "pid" in answer:
                self.pids[rank] = answer["pid"]
        for sent, grace in ((signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0)):
            left = [rank for rank in self.pids if rank not in self.ended]
            for rank in left:
                kill_group(self.pids[rank], sent)
            for rank in left:
                if self.server.receive(self.keys[rank], grace):
                    self.ended.add(rank)
        for key in self.keys.values():
            self.server.forget(key)

    def _stop(self, limit_s: float) -> None:
        # A rank that ended well cannot be why the others have not ended.
        lost = bool(self.exits)
        for rank in sorted(set(self.keys) - self.ended):
            self.exits[rank] = STOPPED if lost else f"{LATE} {limit_s:g} s"

    def _note(self, rank: int, code: int | None) -> None:
        self.ended.add(rank)
        if code is None:
            self.exits[rank] = "the fork server died"
            # Nobody else is left who would kill what the rank has started.
            kill_group(self.pids[rank])
        elif code < 0:
            self.exits[rank] = f"signal {-code} ({signal.Signals(-code).name})"
        elif code:
            self.exits[rank] = f"exit code {code}"


_current: list[Server] = []
_starting = threading.Lock()


def server() -> Server:
    """Return this process's fork server, started at first use and again when it has died."""
    with _starting:
        if _current and not _current[-1].alive:
            close_server()
        if not _current:
            _current.append(Server())
        return _current[-1]


@atexit.register
def close_server() -> None:
    """End this process's fork server, if there is one, and every run of it."""
    while _current:
        _current.pop().close()


def _torchrun_variables(rank: int, world_size: int, port: int) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def _empty(folder: Path) -> Path:
    """Make the folder of a run; refuse one that already holds a run: its records would pass for the new one's."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.glob("rank*.jsonl")):
            raise UsageError(f"--out {folder}: it already holds a run; name a folder that does not")
    except OSError as error:
        raise UsageError(f"--out {folder}: cannot be written: {error.strerror}") from error
    return folder


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
