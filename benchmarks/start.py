"""What does starting one more experiment cost over the training itself? Beside a cold start of the same run.

    python benchmarks/start.py [--repeats 10]

Over the training itself means: wall time of ``launch.run`` less the time from the first to the last
training step, as the run's own stopwatch has it. The bound is 0.2 s; a cold ``python train.py`` of the
same spec is timed in between, so that the two meet the same noise.

Measured on 2 cores of an AMD EPYC, torch 2.13.0, quiet, 4 pairs: 0.065 s warm
(0.064..0.069), 3.5 s cold (3.5..3.6).
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.config import RunSpec, argv
from harness.launch import run, server
from harness.observe.environment import PROJECT
from harness.runs import read_run

SPEC = RunSpec(max_steps=50, val_interval=0, device="cpu")


def warm(folder: Path) -> float:
    """Return the seconds of a start through the fork server, without the training."""
    start = time.perf_counter()
    result = run(SPEC, folder)
    wall = time.perf_counter() - start
    return wall - (result.value("step_time_s") or 0.0) * SPEC.max_steps


def cold(folder: Path) -> float:
    """Return the seconds of a start as a new process, without the training."""
    start = time.perf_counter()
    words = [sys.executable, *argv(SPEC)[1:], "--out", str(folder)]
    subprocess.run(words, cwd=PROJECT, check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - start
    return wall - (read_run(folder).value("step_time_s") or 0.0) * SPEC.max_steps


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=10)
    repeats = parser.parse_args().repeats
    server()
    with tempfile.TemporaryDirectory() as folder:
        pairs = [(warm(Path(folder, f"w{n}")), cold(Path(folder, f"c{n}"))) for n in range(repeats)]
    for name, values in (("warm", [a for a, _ in pairs]), ("cold", [b for _, b in pairs])):
        print(f"{name}: {statistics.median(values):.3f} s ({min(values):.3f}..{max(values):.3f})")


if __name__ == "__main__":
    main()
