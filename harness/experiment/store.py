"""Has this run been done already? Equal specs are equal runs: each is executed once per session folder."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.config import RunOptions, RunSpec, digest
from harness.launch import run as launch
from harness.runs import Run, read_run


class RunStore:
    """The runs of one session, shared by all its processes; a lock per run lets each be executed once."""

    def __init__(self, folder: Path, options: RunOptions | None = None) -> None:
        self.folder = folder
        self.options = options or RunOptions()

    def get(self, spec: RunSpec, repeat: int = 0) -> Run:
        """Return the run of a spec, executing it when nobody has; ``repeat`` asks for another execution."""
        folder = self.folder / (digest(spec) + (f"-{repeat}" if repeat else ""))
        done = folder / "done"
        with self._alone(folder):
            if done.exists():
                return read_run(folder)
            # What is there without the mark was left by an interrupted session.
            shutil.rmtree(folder, ignore_errors=True)
            run = launch(spec, folder, self.options)
            done.touch()
            return run

    @contextmanager
    def _alone(self, folder: Path) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
