"""How does one ask the fork server for a process, and hear how it ended? The client's side of the pipe.

The server lives as long as its client and starts many processes that end one by one, so it is no command that
``harness.processes.finish`` could wait for. Only killing a group is the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from harness.errors import LaunchError
from harness.processes import kill_group

START_LIMIT_S = 120.0
"""Importing torch takes 2 to 5 s; on a cold network disk it was seen to take over a minute."""

SERVER_ENDED: dict[str, Any] = {"event": "ended", "code": None}
"""The last answer to everybody who still waits."""


class Server:
    """The client side of the fork server."""

    def __init__(self) -> None:
        reader, writer = os.pipe()
        self.owner = os.getpid()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "harness.engine.forkserver", str(writer)],
            stdin=subprocess.PIPE,
            pass_fds=[writer],
            env=caller_environment(),
            # A terminal's Ctrl-C must reach us alone: we then stop the ranks, which flush their records.
            start_new_session=True,
        )
        os.close(writer)
        self.answers = os.fdopen(reader)
        self.lock = threading.Lock()
        self.waiting: dict[str, Queue[dict[str, Any]]] = {"": Queue()}
        self.count = 0
        self.ended = False
        self.listener = threading.Thread(target=self._listen, name="fork-server-answers", daemon=True)
        self.listener.start()
        self._await_ready()

    @property
    def alive(self) -> bool:
        """Whether it can start another run for this process."""
        return self.process.poll() is None and self.owner == os.getpid()

    def _await_ready(self) -> None:
        ready = False
        try:
            ready = self.receive("", START_LIMIT_S).get("event") == "ready"
        finally:
            if not ready:  # whatever interrupted the start, nobody would use what was started
                self.process.kill()
                self.close()
        if not ready:
            raise LaunchError(f"the fork server did not start (exit code {self.process.returncode})")

    def request(self, message: dict[str, Any]) -> str:
        """Ask for one process; return the id under which its answers come."""
        with self.lock:
            self.count += 1
            key = str(self.count)
            self.waiting[key] = Queue()
            if self.ended:
                raise LaunchError(f"the fork server is gone (exit code {self.process.poll()})")
            assert self.process.stdin is not None
            try:
                self.process.stdin.write((json.dumps(message | {"id": key}) + "\n").encode())
                self.process.stdin.flush()
            except OSError as error:
                raise LaunchError(f"the fork server is gone (exit code {self.process.poll()})") from error
        return key

    def receive(self, key: str, limit_s: float) -> dict[str, Any]:
        """Return the next answer, or an empty one when the limit passes."""
        try:
            return self.waiting[key].get(timeout=min(max(0.0, limit_s), threading.TIMEOUT_MAX))
        except Empty:
            return {}

    def forget(self, key: str) -> None:
        """Drop the answers of a process that is done with."""
        with self.lock:
            self.waiting.pop(key, None)

    def close(self) -> None:
        """End the server; it kills what still runs."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.listener.join(5)

    def _listen(self) -> None:
        with self.answers:
            for line in self.answers:
                message = json.loads(line)
                waiting = self.waiting.get(message.get("id", ""))
                if waiting is not None:
                    waiting.put(message)
                elif message.get("event") == "started":
                    # Whoever asked for it has given up meanwhile.
                    kill_group(message["pid"])
        with self.lock:
            self.ended = True
            for queue in self.waiting.values():
                queue.put(SERVER_ENDED)


def caller_environment() -> dict[str, str]:
    """Return the environment of this process, in which the harness can be imported."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([_root(), *_inherited_path()])}


def _root() -> str:
    return str(Path(__file__).resolve().parent.parent)


def _inherited_path() -> list[str]:
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
