"""What does our train loop cost over the same loop written bare? Paired, interleaved, judged as a ratio.

    python benchmarks/loop.py [--repeats 15]

Bare means: the same model, data order, optimizer, autocast, clipping and schedule in ten lines around torch's
DataLoader, a loss read every ten steps, no observers and no records. The bound is 1.03 for the median of the
paired ratios.

Measured on 2 cores of an AMD EPYC, torch 2.13.0, 11 pairs: 1.026 (1.015..1.035) for the perceptron in fp32 and 1.027
(1.013..1.038) in bf16, whose step takes 0.8 ms; 0.992 (0.930..1.043) for the transformer, whose step takes 15 ms.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.utils.data import DataLoader

from harness.config import RunOptions, RunSpec
from harness.devices.select import open_device
from harness.engine.build import Parts, build
from harness.engine.data import batching
from harness.engine.parallel import Ranks
from harness.engine.train import Loop
from harness.engine.workload import load_workload
from harness.observe.recorder import Recorder
from harness.observe.standard import Watch

CASES = {
    "digits_mlp fp32, a step below 1 ms": RunSpec(max_steps=300, val_interval=0, device="cpu"),
    "digits_mlp bf16": RunSpec(max_steps=300, val_interval=0, device="cpu", precision="bf16"),
    "byte_lm fp32, a step of about 15 ms": RunSpec(
        workload="byte_lm", batch_size=16, max_steps=60, val_interval=0, device="cpu"
    ),
}

ALONE = Ranks(0, 0, 1, launched=False)


def ours(spec: RunSpec) -> float:
    """Return the seconds per step of our loop with the default observers; it stops a step before the validation."""
    device, watch = open_device("cpu", 0), Watch(spec.observe)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        recorder = Recorder(Path(folder, "run"), 0)
        watch.start()
        loop = Loop(spec, RunOptions(), device, recorder, watch)
        parts = _parts(spec)
        start = time.perf_counter()
        loop.run(parts, spec.max_steps - 1, Path(folder))
        seconds = time.perf_counter() - start
        watch.stop()
        recorder.close()
    return seconds / (spec.max_steps - 1)


def bare(spec: RunSpec) -> float:
    """Return the seconds per step of the same loop written bare."""
    parts = _parts(spec)
    model, optimizer, scheduler = parts.model, parts.optimizer, parts.schedule.scheduler
    # The fastest form of a DataLoader over tensors: a whole batch is one index operation.
    data = parts.workload.train_data
    loader = DataLoader(data, **batching(data, spec.batch_size, parts.batches.sampler, drop_last=True))
    model.train()
    start, step = time.perf_counter(), 0
    while step < spec.max_steps:
        for inputs, targets in loader:
            with parts.autocast():
                loss = parts.loss(model(inputs), targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), spec.clip_norm)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad(set_to_none=True)
            step += 1
            if step % 10 == 0:
                loss.item()
            if step == spec.max_steps:
                break
    return (time.perf_counter() - start) / spec.max_steps


def _parts(spec: RunSpec) -> Parts:
    return build(spec, load_workload(spec.workload, spec.size, spec.seed), open_device("cpu", 0), ALONE)


def paired(one: Callable[[], float], other: Callable[[], float], repeats: int) -> list[float]:
    """Return one/other for each pair; the order alternates from pair to pair."""
    ratios = []
    for repeat in range(repeats):
        if repeat % 2:
            b, a = other(), one()
        else:
            a, b = one(), other()
        ratios.append(a / b)
    return ratios


def main() -> None:
    """Print a row per case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    for name, spec in CASES.items():
        ours(spec)
        bare(spec)
        ratios = paired(lambda spec=spec: ours(spec), lambda spec=spec: bare(spec), repeats)  # type: ignore[misc]
        middle = statistics.median(ratios)
        print(f"{name:40} ours / bare = {middle:.3f} ({min(ratios):.3f}..{max(ratios):.3f}), bound 1.03")


if __name__ == "__main__":
    main()
