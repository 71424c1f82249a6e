"""Are the visible GPUs there, healthy, cool, and ours alone, as far as NVML can tell?

A counter that no card has is SKIPPED, never passed; where only some have it, the check says how many do not.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.devices.gate.host import Host, blocked, check
from harness.observe.gpu_state import GpuState
from harness.observe.outcome import GateCheck

UNLISTED_LIMIT_BYTES = 2**30
"""Memory that no listed process explains. Origin: without a process an idle card shows below 100 MiB; a training job
holds a CUDA context (about 500 MiB on an H100) and what its allocator keeps."""


def gpus_present(host: Host) -> GateCheck:
    """Enough GPUs are visible."""
    names = ", ".join(f"{gpu.name}" for gpu in host.gpus)
    found = f"{len(host.gpus)} visible: {names}" if host.gpus else "no GPU is visible"
    hidden = "CUDA_VISIBLE_DEVICES" in host.environ and not host.nvml_reason
    why = host.nvml_reason or (f"CUDA_VISIBLE_DEVICES={host.environ['CUDA_VISIBLE_DEVICES']}" if hidden else "")
    return check(
        "device",
        "" if len(host.gpus) >= host.devices else f"{found} ({why})" if why else found,
        observed=found,
        expected=f"at least {host.devices} of kind cuda",
        remedy="ask for fewer --devices, correct CUDA_VISIBLE_DEVICES, or install driver and nvidia-ml-py; "
        "in docker start with --gpus all; without a GPU use --device cpu",
    )


def gpus_answer(host: Host) -> GateCheck:
    """No GPU is lost from the bus or waits for a reset."""
    expected = "every visible GPU answers"
    if not host.gpus:
        return blocked("GPU answers", ["device"], expected)
    return check(
        "GPU answers",
        _per_gpu(host, lambda gpu: gpu.error),
        observed=f"{len(host.gpus)} of {len(host.gpus)}",
        expected=expected,
        remedy="read the Xid lines of `dmesg`; reset with `nvidia-smi --gpu-reset -i N` or reboot; "
        "a card that is lost again is to be replaced",
    )


def memory_errors(host: Host) -> GateCheck:
    """No uncorrected ECC error since the driver was loaded."""
    return _health(
        "ECC",
        host,
        counter=lambda gpu: gpu.ecc_uncorrected,
        problem=lambda gpu: f"{gpu.ecc_uncorrected} uncorrected" if gpu.ecc_uncorrected else "",
        expected="0 uncorrected errors since the driver was loaded",
        remedy="drain the GPU and reset it (`nvidia-smi --gpu-reset -i N`); if errors return, run `dcgmi diag -r 3` "
        "and replace it",
    )


def row_remaps(host: Host) -> GateCheck:
    """No memory row waits for its replacement, and none could not be replaced."""
    return _health(
        "row remap",
        host,
        counter=lambda gpu: gpu.row_remap_pending,
        problem=_remap_problem,
        expected="no pending and no failed row remap",
        remedy="pending: reset the GPU (`nvidia-smi --gpu-reset -i N`) to put it into effect; failed: replace it",
    )


def throttling(host: Host) -> GateCheck:
    """No slowdown by heat, power supply or hardware; idle clocks and set clocks are benign."""
    return _health(
        "throttling",
        host,
        counter=lambda gpu: gpu.throttle_reasons,
        problem=lambda gpu: ", ".join(gpu.throttle_faults),
        expected="no slowdown by heat, power supply or hardware",
        remedy="let it cool down; see `nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER`; check fans and power cables",
    )


def not_shared(host: Host) -> GateCheck:
    """Nobody else computes on the GPUs, in this container or another."""
    return _health(
        "other processes",
        host,
        counter=lambda gpu: gpu.other_pids,
        problem=_sharers,
        expected="no other process on the visible GPUs",
        remedy="end the other job or wait for it, or leave the GPU out with CUDA_VISIBLE_DEVICES",
    )


def _remap_problem(gpu: GpuState) -> str:
    if gpu.row_remap_pending:
        return "a row waits to be remapped"
    return "a remap failed" if gpu.row_remap_failed else ""


def _sharers(gpu: GpuState) -> str:
    if gpu.other_pids:
        return "process " + ", ".join(map(str, gpu.other_pids))
    if gpu.memory_used_bytes is None or gpu.memory_listed_bytes is None:
        return ""
    unlisted = gpu.memory_used_bytes - gpu.memory_listed_bytes
    if unlisted <= UNLISTED_LIMIT_BYTES:
        return ""
    return f"{unlisted / 2**30:.1f} GiB used by a process that is not visible from here (another container?)"


def _health(
    name: str,
    host: Host,
    *,
    counter: Callable[[GpuState], object],
    problem: Callable[[GpuState], str],
    expected: str,
    remedy: str,
) -> GateCheck:
    """Ask every GPU; ``counter`` gives None where a card has no such number."""
    if not host.gpus:
        return blocked(name, ["device"], expected)
    num_mute = sum(counter(gpu) is None for gpu in host.gpus)
    problems = _per_gpu(host, problem)
    if num_mute == len(host.gpus) and not problems:
        return GateCheck(name=name, outcome="SKIPPED", observed="this card or driver does not tell", expected=expected)
    mute = f", {num_mute} of {len(host.gpus)} do not tell" if num_mute else ""
    return check(name, problems, observed=f"none{mute}", expected=expected, remedy=remedy)


def _per_gpu(host: Host, problem: Callable[[GpuState], str]) -> str:
    return "; ".join(f"GPU {gpu.index}: {found}" for gpu in host.gpus if (found := problem(gpu)))
