"""Does somebody else use the GPU? Programs of several names on one card, or memory in use that nobody is listed for."""

from __future__ import annotations

import re

from harness.diagnose.finding import NO_BOUND, Evidence, Finding, Missing
from harness.telemetry.load import AT_REST
from harness.telemetry.normal import MEMORY_USED, UTILISATION, Gpu, Process, Telemetry

CAUSE = "other_process_on_gpu"

CONTEXT_MIB = 600.0
"""MiB up to which a process may hold no more than its CUDA context: 250 to 550 on cards from V100 to H100."""

SERVICES = ("nvidia-cuda-mps", "nv-hostengine", "dcgm", "nvidia-persiste")
"""Programs of the driver itself."""

WHO = "ps -o user,pid,etime,args -p $(nvidia-smi --query-compute-apps=pid --format=csv,noheader | paste -sd,)"


def strangers(telemetry: Telemetry) -> tuple[list[Finding], list[Missing]]:
    """Return programs of several names that share a GPU, or what leaves in doubt whether somebody shares it."""
    findings, doubts = [], []
    for gpu in sorted({process.gpu for process in telemetry.processes}):
        here = [process for process in telemetry.processes if process.gpu == gpu and _computes(process)]
        names = sorted({_name(process) for process in here})
        alone = {one.pid for one in here} - {one.pid for one in telemetry.processes if one.gpu != gpu}
        if len(names) > 1:
            findings.append(_shared(telemetry, gpu, here, names))
        elif len(alone) > 1:
            doubts.append(_doubt(f"whose the {len(alone)} processes {names[0]} on GPU {gpu} are"))
    listed = {process.gpu for process in telemetry.processes}
    unclear = [gpu for gpu in telemetry.gpus() if gpu.name not in listed and _is_taken(gpu)]
    doubts += [_doubt(f"whose memory is in use on {gpu.label} while nothing runs on it") for gpu in unclear]
    if not telemetry.lists_processes:
        doubts.append(_doubt("the list of processes"))
    return findings, doubts


def _computes(process: Process) -> bool:
    small = process.memory is not None and process.memory < CONTEXT_MIB
    return process.kind in {"C", "M+C", ""} and not small and not _name(process).startswith(SERVICES)


def _name(process: Process) -> str:
    """Return the program, whatever its folder and its version: ``/usr/bin/python3.11 train.py`` is python."""
    words = process.name.split()
    return re.sub(r"[\d.]+$", "", words[0].split("/")[-1]) or words[0] if words else "?"


def _is_taken(gpu: Gpu) -> bool:
    """Whether its memory is in use although nothing runs; more than a context, so somebody keeps data there."""
    used = gpu.samples[-1].get(MEMORY_USED) or 0.0
    rests = gpu.has(UTILISATION) and all((one.get(UTILISATION) or 0.0) <= AT_REST for one in gpu.samples)
    return rests and used > 2 * CONTEXT_MIB


def _shared(telemetry: Telemetry, gpu: str, here: list[Process], names: list[str]) -> Finding:
    first = {name: next(process for process in here if _name(process) == name) for name in names}
    told = ", ".join(f"{name} (pid {process.pid}{_held(process)})" for name, process in first.items())
    source = f"{telemetry.file}:{here[0].line}"
    return Finding(
        category="hardware",
        cause=CAUSE,
        confidence=0.7,
        summary=f"Programs of several names compute on GPU {gpu} and share its time and its memory: {told}.",
        evidence=[
            Evidence(name="programs", value=float(len(names)), unit="names", threshold=">= 2", source=source),
            *(
                Evidence(name=f"{name}_memory", value=one.memory, unit="MiB", threshold=NO_BOUND, source=source)
                for name, one in first.items()
                if one.memory is not None
            ),
        ],
        confirm=f"See whose they are: {WHO}",
        action="Take a GPU that is free (CUDA_VISIBLE_DEVICES), or have the other program moved.",
        place=source,
    )


def _held(process: Process) -> str:
    return "" if process.memory is None else f", {process.memory:.0f} MiB"


def _doubt(observation: str) -> Missing:
    return Missing(observation=observation, needed_for=CAUSE, command=WHO)
