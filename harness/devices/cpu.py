"""The host's cores as a device: real numerics, real memory limits, gloo."""

from __future__ import annotations

import contextlib
import platform
import resource
from pathlib import Path

import torch

MIB = 2**20


class CpuDevice:
    """One rank on the host, with one thread."""

    kind = "cpu"
    backend = "gloo"

    def __init__(self, local_rank: int) -> None:
        self.local_rank = local_rank
        self._start_bytes = 0
        torch.set_num_threads(1)

    @property
    def torch_device(self) -> torch.device:
        """Where tensors go."""
        return torch.device("cpu")

    def name(self) -> str:
        """Return the processor's model name."""
        for line in _read("/proc/cpuinfo").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
        return platform.machine()

    def refuses(self, precision: str) -> str:
        """TF32 is a number format of NVIDIA's Tensor Cores from Ampere on."""
        if precision == "tf32":
            return "precision tf32 needs an NVIDIA GPU of compute capability 8.0 or newer; this run is on the cpu"
        return ""

    def synchronize(self) -> None:
        """Host work is never queued."""

    def limit_memory(self, limit_bytes: int) -> None:
        """Bound the private data of this process: beyond it an allocation fails for real."""
        used = _status_kib("VmData") * 1024
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = used + limit_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard < 0 else min(wanted, hard), hard))

    def start_peak(self) -> None:
        """Reset the kernel's high-water mark of resident memory where that is allowed."""
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        self._start_bytes = _status_kib("VmRSS") * 1024

    def peak_bytes(self) -> int:
        """Return the resident memory that the run added at its peak."""
        return max(0, _status_kib("VmHWM") * 1024 - self._start_bytes)


def make(local_rank: int) -> CpuDevice:
    """Return the device of one rank."""
    return CpuDevice(local_rank)


def _status_kib(field: str) -> int:
    for line in _read("/proc/self/status").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return 0


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
