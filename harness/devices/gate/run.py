"""Is this host fit to be measured on? The integrity gate: every check, in order, on devices that nobody else uses."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from harness.devices.gate.gpu import (
    gpus_answer,
    gpus_present,
    memory_errors,
    not_shared,
    row_remaps,
    throttling,
)
from harness.devices.gate.host import GateKind, Host, blocked, check
from harness.devices.gate.machine import (
    cores_present,
    disk_space,
    environment_clean,
    shared_memory,
    torch_version,
)
from harness.devices.gate.torch_process import run_selftest
from harness.devices.leases import lease
from harness.errors import DeviceError
from harness.observe.nvml import Nvml, open_nvml, visible_gpus
from harness.observe.outcome import Gate, GateCheck, Outcome

LEASE_WAIT_S = 600.0
"""How long to wait for another session. Origin: no run of the project is longer than ten minutes."""


def devices_leased(host: Host) -> GateCheck:
    """Nobody else of this project measures on the devices now."""
    expected = "no other session measures on the devices"
    if not host.leased and not host.lease_problem:
        return blocked("lease", ["device"], expected)
    return check(
        "lease",
        host.lease_problem,
        observed="held during the checks",
        expected=expected,
        remedy="wait for the process that is named, or choose other devices with CUDA_VISIBLE_DEVICES",
    )


Look = Callable[[Host], GateCheck]

GPU_CHECKS: tuple[Look, ...] = (gpus_answer, memory_errors, row_remaps, throttling, not_shared)
HOST_CHECKS: tuple[Look, ...] = (torch_version, environment_clean, disk_space, shared_memory)
CHECKS: Mapping[GateKind, tuple[Look, ...]] = {
    "cuda": (gpus_present, devices_leased, *GPU_CHECKS, *HOST_CHECKS),
    "cpu": (cores_present, devices_leased, *HOST_CHECKS),
    "emulated": (cores_present, devices_leased, *HOST_CHECKS),
}
"""In the order of the report. The self-test comes last: it needs all of these."""

SELFTEST_NEEDS = ("device", "lease", "GPU answers", "torch version")


def run_gate(
    kind: GateKind,
    devices: int,
    out_folder: Path,
    *,
    wait_s: float = LEASE_WAIT_S,
    environ: Mapping[str, str] | None = None,
    nvml: Nvml | None = None,
) -> Gate:
    """Check the host and all its visible devices of ``kind``, of which at least ``devices`` must be there.

    Holds a lease meanwhile, so that the self-test disturbs no measurement of another session, and the processes of that
    session are not taken for strangers; waits up to ``wait_s`` seconds for it. Raises UsageError for a wrong
    CUDA_VISIBLE_DEVICES; whatever else is wrong is a FAILED check with a remedy.
    """
    environ = os.environ if environ is None else environ
    if nvml is None:
        with closing(open_nvml()) as opened:
            return run_gate(kind, devices, out_folder, wait_s=wait_s, environ=environ, nvml=opened)
    host = Host(kind=kind, devices=devices, out_folder=out_folder, environ=environ, nvml_reason=nvml.reason)
    with ExitStack() as stack:
        host, names = _leased(host, nvml, wait_s, stack)
        checks = [look(host) for look in CHECKS[kind]]
        checks += _selftest(host, names, checks)
    return Gate(outcome=overall(checks), checks=checks)


def overall(checks: list[GateCheck]) -> Outcome:
    """Return FAILED unless there are checks and each one passed or does not apply."""
    fit = bool(checks) and all(check.outcome in {"PASSED", "SKIPPED"} for check in checks)
    return "PASSED" if fit else "FAILED"


def _leased(host: Host, nvml: Nvml, wait_s: float, stack: ExitStack) -> tuple[Host, list[str]]:
    """Take the devices until the stack is closed, then look at them: the snapshot shows them as we hold them."""
    gpus = visible_gpus(host.environ, nvml) if host.kind == "cuda" else []
    host = replace(host, gpus=gpus)
    if CHECKS[host.kind][0](host).outcome != "PASSED":
        return host, []
    count = sum(bool(gpu.uuid) for gpu in gpus) if gpus else host.devices
    try:
        names = stack.enter_context(lease(count, host.kind, wait_s, environ=host.environ, nvml=nvml))
    except DeviceError as error:
        return replace(host, lease_problem=str(error)), []
    return replace(host, leased=True, gpus=visible_gpus(host.environ, nvml) if gpus else []), names


def _selftest(host: Host, names: list[str], checks: list[GateCheck]) -> list[GateCheck]:
    failed = [each.name for each in checks if each.name in SELFTEST_NEEDS and each.outcome == "FAILED"]
    if failed:
        return [blocked("self-test", failed, "products, finite values and collectives are correct")]
    return run_selftest("cuda" if host.kind == "cuda" else "cpu", names, host.environ)
