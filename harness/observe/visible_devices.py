"""Which of these GPUs does a value of CUDA_VISIBLE_DEVICES leave visible, and in which order?"""

from __future__ import annotations

from collections.abc import Mapping

from harness.errors import UsageError
from harness.observe.gpu_state import GpuState

_HIDES_ALL = ("", "NoDevFiles")
"""Values that leave nothing visible; the second is what Slurm sets for a job without GPUs."""


def select_visible(gpus: list[GpuState], environ: Mapping[str, str]) -> list[GpuState]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES names; all of them when it is not set.

    As in CUDA, a negative entry ends the list and a UUID may be shortened. Raises UsageError for an entry that names no
    device, is ambiguous, or is given twice: CUDA would silently show fewer devices.
    """
    value = environ.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return gpus
    chosen: list[GpuState] = []
    for entry in _entries(value):
        gpu = _find(gpus, entry, environ)
        if gpu in chosen:
            raise UsageError(f"CUDA_VISIBLE_DEVICES={value}: {entry!r} names a GPU that the list already has")
        chosen.append(gpu)
    return chosen


def _entries(value: str) -> list[str]:
    if value.strip() in _HIDES_ALL:
        return []
    entries = [entry.strip() for entry in value.rstrip(", ").split(",")]
    ends = [position for position, entry in enumerate(entries) if entry.startswith("-")]
    return entries[: ends[0]] if ends else entries


def _find(gpus: list[GpuState], entry: str, environ: Mapping[str, str]) -> GpuState:
    if entry.isdecimal():
        _refuse_ambiguous_order(gpus, environ)
        found = [gpu for gpu in gpus if gpu.index == int(entry)]
    else:
        found = [gpu for gpu in gpus if entry and entry in (gpu.uuid, gpu.parent_uuid)]
        found = found or [gpu for gpu in gpus if entry.startswith(("GPU-", "MIG-")) and gpu.uuid.startswith(entry)]
        _refuse_short(found, entry)
    if not found:
        there = ", ".join(f"{gpu.index} ({gpu.name}, {gpu.uuid})" for gpu in gpus)
        raise UsageError(f"CUDA_VISIBLE_DEVICES: there is no GPU {entry!r} on this host; there are: {there}")
    # A GPU that is cut into MIG instances stands for its first one, as in CUDA.
    return found[0]


def _refuse_short(found: list[GpuState], entry: str) -> None:
    if len(found) > 1 and all(entry != gpu.parent_uuid for gpu in found):
        fits = ", ".join(gpu.uuid for gpu in found)
        raise UsageError(f"CUDA_VISIBLE_DEVICES: {entry!r} fits more than one GPU ({fits}); write more of its UUID")


def _refuse_ambiguous_order(gpus: list[GpuState], environ: Mapping[str, str]) -> None:
    """CUDA numbers the fastest card first and NVML counts by bus: the same number only among equal cards."""
    models = sorted({gpu.name.partition(" MIG ")[0] for gpu in gpus})
    if len(models) > 1 and environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        raise UsageError(
            f"CUDA_VISIBLE_DEVICES names a GPU by number, and the GPUs of this host differ ({', '.join(models)}): "
            "set CUDA_DEVICE_ORDER=PCI_BUS_ID too, or name the GPU by its UUID"
        )
