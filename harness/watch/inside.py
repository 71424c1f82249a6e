"""What does a watched process do besides its own work? It records what the observers see, and changes nothing.

Started right after torch was imported, in every process that imports it: a launcher, a data loader's worker and a
script that only evaluates start no backward pass, and leave no record.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time
from multiprocessing import util
from pathlib import Path
from typing import Any, NoReturn

import torch

from harness.observe.base import Observer
from harness.observe.recorder import Recorder
from harness.observe.running_sums import RunningSums
from harness.observe.sites import Sites
from harness.observe.standard import Watch

KEEP_S = 5.0
"""Least seconds between two times that the observations are written down. Only attempts that are looked at closely
write: a process that is killed loses what came after the last of them."""

PATIENCE_S = 10.0
"""Longest time without an attempt that is looked at closely, in seconds: a look would have to take half a second to
slow a training by 5 %."""


class Keeper(Observer):
    """Writes down what the other observers have seen so far, in attempts that are looked at."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def on_attempt_end(self, step: int) -> None:
        """Keep the first attempt, then at most one in KEEP_S seconds."""
        if step == 1 or time.monotonic() - self.process.kept > KEEP_S:
            self.process.keep("so_far")


class Process:
    """One process under observation."""

    def __init__(self, folder: Path, level: str) -> None:
        self.folder, self.level = folder, level
        self.kept = time.monotonic()
        self.recorder: Recorder | None = None
        self.watch = Watch(level)
        # What a script adds up by itself; our own loop adds nothing up in 16 bits, and is spared the look at every sum.
        self.watch.start(RunningSums(), Sites(), Keeper(self), patience_s=PATIENCE_S)

    def keep(self, event: str, **told: Any) -> None:
        """Write down samples and observations; the first time, who this is."""
        self.kept = time.monotonic()
        if self.watch.attachment is None or not self.watch.attachment.has_trained:
            return
        if self.recorder is None:
            rank, num_ranks = _place()
            self.recorder = Recorder(self.folder / f"rank{rank}-process{os.getpid()}", rank)
            self.recorder.write("start", **_described(rank, num_ranks))
        self.watch.write_samples(self.recorder)
        self.recorder.write(event, **told, summary=self.watch.summary())

    def end(self) -> None:
        """Write the last record; called when the interpreter ends, also by an exception."""
        self.watch.stop()
        error = getattr(sys, "last_value", None)
        state, message = ("error", f"{type(error).__name__}: {error}"[:1000]) if error else ("completed", "")
        self.keep("end", state=state, message=message)


_own: list[Process] = []
"""The observed process that this one is; nothing after its end."""


def start(folder: Path, level: str) -> None:
    """Observe this process until it ends, and each process that it forks."""
    _own.append(Process(folder, level))
    atexit.register(_end)
    leave = os._exit

    def end_and_leave(status: int) -> NoReturn:
        """Write the last record of a process that leaves without the end that atexit waits for."""
        with contextlib.suppress(Exception):  # it is leaving, and must
            _end()
        leave(status)

    os._exit = end_and_leave
    os.register_at_fork(after_in_child=_begin_again)
    # A child of multiprocessing forgets its parent's finalizers, and ends without running what atexit knows.
    util.register_after_fork(Process, lambda _: util.Finalize(None, _end, exitpriority=-100))


def _begin_again() -> None:
    """Leave the parent's observations to the parent, and begin own ones."""
    if not _own:
        return
    parents = _own.pop()
    parents.watch.stop()
    _own.append(Process(parents.folder, parents.level))


def _end() -> None:
    if _own:
        _own.pop().end()


def _described(rank: int, num_ranks: int) -> dict[str, Any]:
    return {
        "watched": True,
        "command": os.environ.get("GPU_EXAM_WATCH_COMMAND", ""),
        "argv": sys.argv,
        "process": os.getpid(),
        "rank": rank,
        "num_ranks": num_ranks,
        "environment": {"torch": torch.__version__, "cuda": torch.version.cuda, "python": sys.version.split()[0]},
    }


def _place() -> tuple[int, int]:
    """Return rank and number of ranks: of the process group where there is one, or what torchrun set."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return _number("RANK", 0), _number("WORLD_SIZE", 1)


def _number(variable: str, otherwise: int) -> int:
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else otherwise
