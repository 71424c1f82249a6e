"""The parts of a run in the test's own process, for tests that look inside."""

from __future__ import annotations

from pathlib import Path

import torch

from harness.config import RunOptions, RunSpec
from harness.devices.cpu import CpuDevice
from harness.engine.build import Parts, build
from harness.engine.parallel import Ranks
from harness.engine.train import Loop
from harness.engine.workload import load_workload
from harness.observe.recorder import Recorder
from harness.observe.standard import Watch

ALONE = Ranks(0, 0, 1, launched=False)


def parts_of(spec: RunSpec) -> Parts:
    """Return the parts that a spec becomes."""
    return build(spec, load_workload(spec.workload, spec.size, spec.seed), CpuDevice(0), ALONE)


def gradients_of_one_step(spec: RunSpec, folder: Path) -> list[torch.Tensor]:
    """Return the gradients of the first step, before the update."""
    parts, recorder = parts_of(spec), Recorder(folder, 0)
    loop = Loop(spec, RunOptions(), CpuDevice(0), recorder, Watch("off"))
    loop.forward_backward(parts, iter(parts.batches))
    recorder.close()
    return [parameter.grad for parameter in parts.model.parameters() if parameter.grad is not None]
