"""What tests of runs share: a tiny spec, a launcher, the file of a user's workload, and processes of one's own."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.config import RunOptions, RunSpec, changed
from harness.launch import run
from harness.runs import Run

ROOT = Path(__file__).parents[1]

TINY = RunSpec(size="tiny", device="cpu", max_steps=12, batch_size=32, val_interval=0)

EVERY_STEP = RunOptions(log_interval=1, time_limit_s=60)

LIMIT_S = 120
"""No process of a test needs half of it on a busy machine."""

HEAD = """
import os, signal, subprocess, sys, time
import torch
from torch import nn
from torch.nn import functional as F
from harness.workloads.base import TensorPairs, Workload


def data(n=256):
    inputs = torch.randn(n, 8, generator=torch.Generator().manual_seed(0))
    return TensorPairs(inputs, (inputs.sum(1) > 0).long())


def parts(**changes):
    made = dict(
        model=nn.Linear(8, 2),
        train_data=data(),
        val_data=data(64),
        loss=lambda output, targets: F.cross_entropy(output.float(), targets),
        metric=lambda output, targets: (output.argmax(-1) == targets).float(),
    )
    return made | changes


class Rows(torch.utils.data.Dataset):
    '''A dataset of the most ordinary kind: one sample at a time.'''

    def __init__(self, n=128):
        self.data = data(n)

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.item(*self.data[index], index)

    def item(self, inputs, target, index):
        return inputs, target
"""
"""Begins every workload file of the tests."""


class Launcher:
    """Launches runs, each in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.numbers = count()
        self.limit_s = 600.0

    def __call__(self, options: RunOptions = EVERY_STEP, **parts: Any) -> Run:
        """Launch TINY with ``parts`` changed."""
        return run(changed(TINY, parts), self.next_folder(), options, limit_s=self.limit_s)

    def workload(self, code: str, options: RunOptions = EVERY_STEP, **parts: Any) -> Run:
        """Launch TINY on a user's workload: ``code`` defines ``make``, after HEAD."""
        return self(options, workload=self.written(code), **parts)

    def written(self, code: str) -> str:
        """Write a user's workload and return its name for ``--workload``."""
        path = self.next_folder() / "mine.py"
        path.parent.mkdir(parents=True)
        path.write_text(HEAD + code)
        return f"{path}:make"

    def next_folder(self) -> Path:
        """Return a folder that does not exist yet."""
        return self.folder / str(next(self.numbers))


@contextmanager
def shared(factory: pytest.TempPathFactory, name: str) -> Iterator[tuple[Path, bool]]:
    """Yield a folder that all xdist workers share, and whether this one is the first there; the others wait for it."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder, not (folder / "done").exists()
        (folder / "done").touch()


def losses(run: Run) -> list[float]:
    """Return the recorded losses in order."""
    return [value for _, value in run.series("step", "loss")]


def losses_after(run: Run, step: int) -> list[tuple[int, float]]:
    """Return (step, loss) of the steps beyond ``step``."""
    return [point for point in run.series("step", "loss") if point[0] > step]


def process(*words: str, environment: dict[str, str] | None = None, **more: Any) -> subprocess.Popen[str]:
    """Start Python with these words in the project's folder; ``more`` goes to Popen."""
    environ = os.environ | {"PYTHONPATH": str(ROOT)} | (environment or {})
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
    return subprocess.Popen([sys.executable, *words], cwd=ROOT, env=environ, text=True, **pipes)


def finished(*words: str, **more: Any) -> tuple[int, str, str]:
    """Run Python with these words to its end; return exit code, output and complaints."""
    started = process(*words, **more)
    output, complaints = started.communicate(timeout=LIMIT_S)
    return started.returncode, output, complaints


def gone(pid: int) -> bool:
    """Tell whether a process has ended, within five seconds."""
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def train_words(out: Path, **parts: Any) -> list[str]:
    """Return the words after ``python`` that train TINY with ``parts`` changed, every step printed."""
    flags = {"size": "tiny", "device": "cpu", "max-steps": 12, "batch-size": 32, "val-interval": 0, "log-interval": 1}
    flags |= {name.replace("_", "-"): value for name, value in parts.items()} | {"out": out}
    return ["train.py", *(word for name, value in flags.items() for word in (f"--{name}", str(value)))]
