"""Which device does ``auto`` mean here? Answered without importing torch, from what NVML shows."""

from __future__ import annotations

import os

from harness.config import RunSpec, changed
from harness.errors import DeviceError
from harness.observe.nvml import visible_gpus


def resolved(spec: RunSpec) -> RunSpec:
    """Return the spec with ``auto`` replaced by the kind that is here; refuse what is not."""
    gpus = len(visible_gpus(os.environ))
    kind = ("cuda" if gpus else "cpu") if spec.device == "auto" else spec.device
    if kind == "cuda" and spec.devices > gpus:
        raise DeviceError(f"--devices {spec.devices}: {gpus} GPU(s) visible; gpu-exam doctor says why")
    return changed(spec, {"device": kind})
