"""Guards around every test: what it changes outside its own folder, it puts back. And the fixtures that all share."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running import Launcher

ROOT = Path(__file__).parents[1]

OURS = ("fork-server-answers", "execnet")
"""Names of threads that live as long as the test session: the launcher's own and those of xdist."""

SET_BY_OTHERS = {
    "PYTEST_CURRENT_TEST",
    "TORCHINDUCTOR_CACHE_DIR",
    "KMP_DUPLICATE_LIB_OK",
    "KMP_INIT_AT_FORK",
}
"""Variables that pytest sets, and torch.compile and scikit-learn when they are imported."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD)


@pytest.fixture(autouse=True)
def no_leaked_environment() -> Iterator[None]:
    """Fail a test that leaves an environment variable changed, and put it back."""
    before = dict(os.environ)
    yield
    after = dict(os.environ)
    os.environ.clear()
    os.environ.update(before)
    changed = {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)} - SET_BY_OTHERS
    assert not changed, f"the test left environment variables changed: {sorted(changed)}"


@pytest.fixture(autouse=True)
def no_leaked_thread() -> Iterator[None]:
    """Fail a test that leaves a thread running."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + 2
    while (left := _threads() - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left, f"the test left threads running: {sorted(thread.name for thread in left)}"


@pytest.fixture(autouse=True)
def no_leaked_process() -> Iterator[None]:
    """Fail a test that leaves a child process; the launcher's fork server lives as long as the session."""
    before = _children()
    yield
    deadline = time.monotonic() + 2
    while (left := _children() - before - _fork_servers()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left, f"the test left processes running: {sorted(left)}"


@pytest.fixture(autouse=True)
def no_leaked_signal_handler() -> Iterator[None]:
    """Fail a test that leaves a signal handler changed, and put it back."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    changed = [number.name for number in SIGNALS if signal.getsignal(number) != before[number]]
    for number, handler in before.items():
        signal.signal(number, handler)
    assert not changed, f"the test left signal handlers changed: {changed}"


@pytest.fixture(autouse=True)
def no_leaked_process_group() -> Iterator[None]:
    """Fail a test that leaves torch.distributed initialized in the test process."""
    yield
    torch = sys.modules.get("torch")
    assert torch is None or not torch.distributed.is_initialized(), "the test left torch.distributed initialized"


@pytest.fixture(autouse=True)
def no_leaked_file() -> Iterator[None]:
    """Fail a test that leaves a file in the project's own folder."""
    before = _files()
    yield
    assert not _files() - before, f"the test left files in {ROOT}: {sorted(_files() - before)}"


@pytest.fixture
def launched(tmp_path: Path) -> Launcher:
    """Return a function that launches a tiny run with some parts changed and returns what it left."""
    return Launcher(tmp_path / "launched")


def _threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if not thread.name.startswith(OURS)}


def _children() -> set[int]:
    try:
        listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return set()
    return {int(pid) for pid in listed.split()}


def _fork_servers() -> set[int]:
    launch = sys.modules.get("harness.launch")
    return {server.process.pid for server in launch._current} if launch else set()


def _files() -> set[str]:
    names = {path.name for path in ROOT.iterdir()} | {f"runs/{path.name}" for path in ROOT.glob("runs/*")}
    return {name for name in names if not name.startswith((".", "__"))}
