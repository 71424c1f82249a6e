"""Which device does ``auto`` mean here, and is there enough of it? Answered without torch, from what NVML shows."""

from __future__ import annotations

import os

from harness.config import RunSpec, changed
from harness.devices.leases import usable_cores
from harness.errors import DeviceError
from harness.observe.nvml import visible_gpus


def resolved(spec: RunSpec) -> RunSpec:
    """Return the spec with ``auto`` replaced by the kind that is here; refuse what is not."""
    gpus = len(visible_gpus(os.environ))
    kind = ("cuda" if gpus else "cpu") if spec.device == "auto" else spec.device
    if kind == "cuda" and not gpus:
        raise DeviceError("--device cuda: no GPU is visible here; --device cpu works, gpu-exam doctor says why")
    if kind == "cuda" and spec.devices > gpus:
        raise DeviceError(f"--devices {spec.devices}: {gpus} GPU(s) visible; gpu-exam doctor says why")
    check_cores(kind, spec.devices)
    return changed(spec, {"device": kind})


def check_cores(kind: str, ranks: int) -> None:
    """Refuse to start more ranks on the host than it has cores: each runs one thread, and they wait for each other."""
    cores = usable_cores()
    if kind == "cpu" and ranks > cores:
        raise DeviceError(
            f"--devices {ranks}: on the cpu each needs a core of its own, and this process may use {cores}; "
            f"accepted are 1 to {cores}"
        )
