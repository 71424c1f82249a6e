"""``gpu-exam doctor``: what is in this machine, and is it fit to be measured on?"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from harness.cli.flags import Flags, one_of, whole
from harness.cli.terminal import complain, say, table
from harness.devices.gate.host import GateKind
from harness.devices.gate.run import run_gate
from harness.errors import HarnessError
from harness.observe.environment import fingerprint
from harness.observe.gpu_state import GpuState
from harness.observe.nvml import Nvml, open_nvml, visible_gpus
from harness.observe.outcome import Gate, GateCheck

LEASE_WAIT_S = 10.0
"""A person is waiting: after this long the answer is which process holds the device."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What there is, before it is judged."""

    kind: GateKind
    devices: int
    no_gpu: str
    """Why no GPU is visible, in one sentence; empty when there is one."""
    facts: Mapping[str, Any]
    gpus: Sequence[GpuState]
    topology: Sequence[Sequence[str]]


def doctor(argv: list[str]) -> int:
    """Print what is here and what the integrity gate finds; return 0 fit, 1 not fit, 2 a wrong command line."""
    try:
        args = _parser().read(argv)
        with closing(open_nvml()) as nvml:
            machine = inspect(args.device, args.devices, os.environ, nvml)
            gate = run_gate(machine.kind, machine.devices, args.out, wait_s=LEASE_WAIT_S, nvml=nvml)
    except HarnessError as error:
        complain(f"gpu-exam doctor: error: {error}")
        return error.exit_code
    say(as_json(machine, gate) if args.json else as_text(machine, gate))
    return 0 if gate.outcome == "PASSED" else 1


def inspect(device: str, devices: int, environ: Mapping[str, str], nvml: Nvml) -> Machine:
    """Look at the machine; ``auto`` is cuda when a GPU is visible and cpu otherwise."""
    gpus = visible_gpus(environ, nvml)
    kind: GateKind = "cuda" if device == "cuda" or (device == "auto" and gpus) else "cpu"
    return Machine(
        kind=kind,
        devices=devices,
        no_gpu="" if gpus else nvml.reason or _hidden(environ),
        facts=fingerprint(),
        gpus=gpus,
        topology=nvml.topology(gpus),
    )


def as_json(machine: Machine, gate: Gate) -> str:
    """Return everything as one JSON object."""
    data = {"schema": 1, "outcome": gate.outcome, **asdict(machine), "gate": gate}
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()


def as_text(machine: Machine, gate: Gate) -> str:
    """Return the tables that a person reads."""
    lines = ["machine", *table(_facts(machine))]
    if len(machine.gpus) > 1:
        lines += ["", "topology", *table(_links(machine))]
    lines += ["", f"checks of kind {machine.kind}", *_checks(gate.checks), "", _verdict(gate)]
    return "\n".join(lines)


def _parser() -> Flags:
    parser = Flags("gpu-exam doctor", "Check whether this machine can be measured on.")
    parser.add_argument(
        "--device",
        type=one_of("auto", "cpu", "cuda"),
        default="auto",
        metavar="{auto,cpu,cuda}",
        help="default: a GPU if there is one",
    )
    parser.add_argument(
        "--devices", type=whole(1), default=1, metavar="N", help="number of devices needed (default: 1)"
    )
    parser.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="folder that runs will write to")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser


def _hidden(environ: Mapping[str, str]) -> str:
    value = environ.get("CUDA_VISIBLE_DEVICES")
    return "this host has none" if value is None else f"CUDA_VISIBLE_DEVICES={value!r} hides them"


def _facts(machine: Machine) -> list[list[str]]:
    facts = machine.facts
    versions = [f"{name} {facts[name]}" for name in ("python", "torch", "numpy") if facts.get(name)]
    libraries = [f"{name} {facts.get(name) or 'none'}" for name in ("cuda", "cudnn", "nccl")]
    rows = [
        ["CPU", f"{facts['cpu']}, {facts['cores_available']} usable cores"],
        ["memory", f"{facts['memory_gib']} GiB"],
        ["system", str(facts["os"])],
        ["versions", ", ".join(versions)],
        ["libraries", ", ".join(libraries)],
    ]
    if machine.no_gpu:
        return [*rows, ["GPU", f"no GPU found: {machine.no_gpu}"]]
    first = machine.gpus[0]
    rows.append(["driver", f"{_or_dash(first.driver_version)}, runs CUDA up to {_or_dash(first.cuda_driver_version)}"])
    return rows + [[f"GPU {gpu.index}", _gpu(gpu)] for gpu in machine.gpus]


def _gpu(gpu: GpuState) -> str:
    """One line about one GPU; a dash stands for what the card does not tell."""
    if gpu.error:
        return f"{gpu.name}: {gpu.error}"
    reasons = "-" if gpu.throttle_reasons is None else ", ".join(gpu.throttle_reasons) or "none"
    parts = [
        gpu.name,
        f"{_gib(gpu.memory_used_bytes)} of {_gib(gpu.memory_total_bytes)} GiB used",
        f"{_or_dash(gpu.temperature_c)} C",
        f"{_or_dash(gpu.sm_clock_mhz)} of {_or_dash(gpu.sm_clock_max_mhz)} MHz",
        f"{_watts(gpu.power_w)} of {_watts(gpu.power_limit_w)} W",
        f"ECC {_or_dash(gpu.ecc_uncorrected)}",
        f"clocks held by: {reasons}",
        gpu.uuid,
    ]
    return ", ".join(parts)


def _links(machine: Machine) -> list[list[str]]:
    names = [f"GPU {gpu.index}" for gpu in machine.gpus]
    return [["", *names], *([name, *words] for name, words in zip(names, machine.topology, strict=True))]


def _checks(checks: Sequence[GateCheck]) -> list[str]:
    """Return one aligned line per check, and under a failed one what to do."""
    rows = table(
        [[c.outcome, c.name, c.observed, c.expected] for c in checks], header=("", "check", "observed", "expected")
    )
    indent = " " * (4 + max(len(c.outcome) for c in checks))
    lines = rows[:1]
    for row, each in zip(rows[1:], checks, strict=True):
        lines.append(row)
        if each.remedy:
            lines.append(f"{indent}remedy: {each.remedy}")
    return lines


def _verdict(gate: Gate) -> str:
    outcomes = [check.outcome for check in gate.checks]
    counts = [f"{outcomes.count(word)} {word.lower()}" for word in dict.fromkeys(outcomes)]
    return f"{gate.outcome}: {', '.join(counts)}"


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)


def _gib(size: int | None) -> str:
    return "-" if size is None else f"{size / 2**30:.1f}"


def _watts(power: float | None) -> str:
    return "-" if power is None else f"{power:.0f}"
