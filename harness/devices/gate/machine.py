"""Is the host around the devices fit: cores, torch, environment variables, disk and shared memory?"""

from __future__ import annotations

import importlib.metadata
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.devices.gate.host import Host, check
from harness.devices.leases import usable_cores
from harness.observe.outcome import GateCheck

MIN_TORCH = (2, 11)
"""Origin: the oldest release that the project is tested with."""

MIN_DISK_BYTES = 2**30
"""Origin: a profiler trace takes up to 100 MB a rank, and eight ranks, checkpoints and reports have to fit."""

MIN_SHARED_BYTES = 64 * 2**20
"""Per device. Origin: data loader workers hand over batches through /dev/shm, and NCCL keeps its buffers there; two
workers with two prefetched batches of 16 MiB fill it. The 64 MB of docker's default are known to end in a bus error."""

SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Distortion:
    """An environment variable that makes timings or numbers wrong."""

    name: str
    distorts: Callable[[str], bool]
    reason: str


def _on(value: str) -> bool:
    return value.strip().lower() not in {"", "0", "false", "off", "no"}


def _set(value: str) -> bool:
    return value != ""


def _is(*words: str) -> Callable[[str], bool]:
    return lambda value: value.strip().upper() in words


DISTORTIONS = (
    Distortion("CUDA_LAUNCH_BLOCKING", _on, "every kernel launch waits for the kernel"),
    Distortion("PYTORCH_NO_CUDA_MEMORY_CACHING", _set, "every tensor is a cudaMalloc, and memory numbers mean nothing"),
    Distortion("NVIDIA_TF32_OVERRIDE", _set, "TF32 is forced on or off, whatever precision a run asks for"),
    Distortion("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", _on, "fp32 runs compute in TF32"),
    Distortion("NCCL_DEBUG", _is("TRACE"), "every collective writes a line"),
    Distortion("TORCH_DISTRIBUTED_DEBUG", _is("DETAIL"), "every collective is checked by an additional one"),
    Distortion("TORCH_NCCL_BLOCKING_WAIT", _on, "the host waits for every collective"),
    Distortion("PYTHONMALLOC", _is("DEBUG", "PYMALLOC_DEBUG", "MALLOC_DEBUG"), "every Python allocation is checked"),
    Distortion("PYTHONDEVMODE", _set, "Python checks every allocation"),
    Distortion("PYTHONTRACEMALLOC", _on, "Python records the stack of every allocation"),
    Distortion("MALLOC_PERTURB_", _on, "every freed block is overwritten"),
)
"""What configures the stack under test (NCCL_ALGO, NCCL_P2P_DISABLE, ...) is not here: its effect is to be measured."""


def cores_present(host: Host) -> GateCheck:
    """There is a core for each rank; emulated ranks sleep most of the time and may outnumber the cores."""
    cores = usable_cores()
    needed = 1 if host.kind == "emulated" else host.devices
    observed = f"{cores} usable {'core' if cores == 1 else 'cores'}"
    return check(
        "device",
        "" if cores >= needed else observed,
        observed=observed,
        expected=f"at least {needed} for {host.devices} of kind {host.kind}",
        remedy="ask for fewer --devices, or give this process more cores (taskset, the limits of the container)",
    )


def torch_version(host: Host) -> GateCheck:
    """A torch is installed that has the interfaces the harness attaches to."""
    expected = f"torch >= {MIN_TORCH[0]}.{MIN_TORCH[1]}"
    version = _installed("torch")
    numbers = tuple(int(word) for word in re.findall(r"\d+", version)[:2])
    return check(
        "torch version",
        "" if numbers >= MIN_TORCH else f"torch {version or 'is not installed'}",
        observed=f"torch {version}",
        expected=expected,
        remedy=f"pip install '{expected.replace(' ', '')}'",
    )


def environment_clean(host: Host) -> GateCheck:
    """No environment variable distorts timing or numerics."""
    found = [each for each in DISTORTIONS if each.distorts(host.environ.get(each.name, ""))]
    return check(
        "environment variables",
        "; ".join(f"{each.name}={host.environ[each.name]}: {each.reason}" for each in found),
        observed="none of them set",
        expected="nothing that distorts timing or numerics",
        remedy="unset " + " ".join(each.name for each in found),
    )


def disk_space(host: Host) -> GateCheck:
    """The output folder can be written and has room for traces and checkpoints."""
    problem, observed = "", ""
    try:
        host.out_folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=host.out_folder) as probe:
            probe.write(b"x" * 4096)
        free = _free_bytes(host.out_folder)
        observed = f"{free / 2**30:.1f} GiB free in {host.out_folder}"
        problem = "" if free >= MIN_DISK_BYTES else observed
    except OSError as error:
        problem = f"{host.out_folder}: cannot be written: {error.strerror}"
    return check(
        "disk",
        problem,
        observed=observed,
        expected=f"writable, >= {MIN_DISK_BYTES // 2**30} GiB free for traces and checkpoints",
        remedy="free some space, or give another folder with --out",
    )


def shared_memory(host: Host) -> GateCheck:
    """The shared memory holds what data loader workers and NCCL exchange there."""
    needed = MIN_SHARED_BYTES * host.devices
    expected = f">= {needed // 2**20} MiB free in {SHARED_MEMORY}"
    if not SHARED_MEMORY.is_dir():
        return GateCheck(name="shared memory", outcome="SKIPPED", observed="no such mount here", expected=expected)
    free = _free_bytes(SHARED_MEMORY)
    observed = f"{free // 2**20} MiB free"
    return check(
        "shared memory",
        "" if free >= needed else observed,
        observed=observed,
        expected=expected,
        remedy="in docker start with --shm-size=1g or --ipc=host (the default is 64 MB); "
        "elsewhere `mount -o remount,size=1g /dev/shm`, or remove what old jobs left there",
    )


def _free_bytes(folder: Path) -> int:
    stat = os.statvfs(folder)
    return stat.f_bavail * stat.f_frsize


def _installed(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
