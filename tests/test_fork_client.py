"""A fork server that is not there is an error at once, and nobody waits for its answers."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest

from harness.errors import LaunchError
from harness.fork_client import SERVER_ENDED, START_LIMIT_S, Server


@pytest.fixture
def server() -> Iterator[Server]:
    """Return a fork server of the test's own."""
    made = Server()
    yield made
    made.close()


def test_server_that_cannot_start_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not after the two minutes that a slow disk gets."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    start = time.monotonic()
    with pytest.raises(LaunchError, match=r"the fork server did not start \(exit code 1\)"):
        Server()
    assert time.monotonic() - start < START_LIMIT_S / 10


def test_answer_that_does_not_come_is_an_empty_one(server: Server) -> None:
    """The caller looks at the clock and asks again."""
    assert server.receive("", 0.01) == {}


def test_server_that_died_answers_that_it_has_ended(server: Server) -> None:
    """Everybody who waits is told, and a new request is refused."""
    os.kill(server.process.pid, signal.SIGKILL)
    assert server.receive("", START_LIMIT_S) == SERVER_ENDED
    server.process.wait()
    assert not server.alive
    with pytest.raises(LaunchError, match=r"the fork server is gone \(exit code -9\)"):
        server.request({})
