"""Has this run been done already? Equal specs are equal runs: each is executed once per session folder."""

from __future__ import annotations

import fcntl
import math
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path

from harness.config import RunOptions, RunSpec, digest
from harness.devices.leases import LeaseKind, lease
from harness.launch import close_server
from harness.launch import run as launch
from harness.runs import Run, read_run

LEASE_WAIT_S = 600.0
"""Waiting longer than the longest run of another session (ten minutes) means that it hangs."""


class RunStore:
    """The runs of one session, shared by all its processes; a lock per run lets each be executed once."""

    def __init__(self, folder: Path, options: RunOptions | None = None, limit_s: float = math.inf) -> None:
        self.folder = folder
        self.options = options or RunOptions()
        self.limit_s = limit_s
        """Seconds after which a run is killed."""
        self.held: list[str] = []
        """What the GPUs are called that are held for several runs."""

    def get(self, spec: RunSpec, repeat: int = 0) -> Run:
        """Return the run of a spec, executing it when nobody has; ``repeat`` asks for another execution."""
        folder = self._folder(spec, repeat)
        done = folder / "done"
        with self._alone(folder):
            if done.exists():
                return read_run(folder)
            # What is there without the mark was left by an interrupted session.
            shutil.rmtree(folder, ignore_errors=True)
            run = self._launched(spec, folder)
            done.touch()
            return run

    def peek(self, spec: RunSpec, repeat: int = 0) -> Run | None:
        """Return the run of a spec when it has been executed, without executing it."""
        folder = self._folder(spec, repeat)
        return read_run(folder) if (folder / "done").exists() else None

    @contextmanager
    def alone(self, kind: LeaseKind, count: int) -> Iterator[None]:
        """Hold devices over several runs, so that all are measured on the same ones and nobody comes in between."""
        with lease(count, kind, LEASE_WAIT_S) as names:
            self.held = names
            try:
                yield
            finally:
                self.held = []

    @staticmethod
    def has_lease(spec: RunSpec) -> bool:
        """Tell whether a run has its device to itself; on the CPU as many run side by side as there are cores."""
        return spec.device == "cuda"

    def _launched(self, spec: RunSpec, folder: Path) -> Run:
        """Execute a run; one on GPUs holds a lease on them, so that nobody else measures there."""
        if not self.has_lease(spec):
            return launch(spec, folder, self.options, limit_s=self.limit_s)
        with nullcontext(self.held) if self.held else lease(spec.devices, "cuda", LEASE_WAIT_S) as names:
            environment = {"CUDA_VISIBLE_DEVICES": ",".join(names[: spec.devices])}
            return launch(spec, folder, self.options, environment=environment, limit_s=self.limit_s)

    def _folder(self, spec: RunSpec, repeat: int) -> Path:
        return self.folder / (digest(spec) + (f"-{repeat}" if repeat else ""))

    @contextmanager
    def _alone(self, folder: Path) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class Prefetch:
    """Executes runs ahead of their use, a few at a time; who asks for one meanwhile waits for it."""

    def __init__(self, store: RunStore, runs: list[tuple[RunSpec, int]], num_threads: int) -> None:
        self.pool = ThreadPoolExecutor(num_threads, thread_name_prefix="prefetch")
        for spec, repeat in dict.fromkeys(runs):
            self.pool.submit(store.get, spec, repeat)

    def stop(self, *, abandon: bool) -> None:
        """Start no further run; wait for those under way, or end them when nobody wants them any more."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        if abandon:
            close_server()
        self.pool.shutdown()
