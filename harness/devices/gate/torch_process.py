"""What does the self-test say? Its process is started here, so that the gate itself never imports torch."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import msgspec

from harness.devices.gate.host import GateKind
from harness.observe.environment import PROJECT
from harness.observe.outcome import GateCheck
from harness.processes import finish

TIME_LIMIT_S = 180.0
"""Origin: the self-test's own limit for its ranks (120 s), and an import of torch from a cold network disk."""

_REMEDY = (
    "run `python -m harness.devices.selftest --device {kind}` by hand and read the error; reinstall torch or the driver"
)


def selftest_command(kind: GateKind, devices: int) -> list[str]:
    """Return the command that runs the self-test."""
    return [sys.executable, "-m", "harness.devices.selftest", "--device", kind, "--devices", str(devices)]


def run_selftest(kind: GateKind, visible: Sequence[str], environ: Mapping[str, str]) -> list[GateCheck]:
    """Run the self-test on the leased devices and return its checks.

    MIG instances are tested one by one: a process can use only one, and NCCL does not connect instances of one card.
    """
    groups = [[name] for name in visible] if any(name.startswith("MIG-") for name in visible) else [list(visible)]
    checks: list[GateCheck] = []
    for group in groups:
        seen = {**environ, "CUDA_VISIBLE_DEVICES": ",".join(group)}
        found = selftest_checks(selftest_command(kind, len(group)), seen, kind)
        named = len(groups) > 1
        checks += [msgspec.structs.replace(c, name=f"{c.name} on {group[0][:12]}") if named else c for c in found]
    return checks


def selftest_checks(command: Sequence[str], environ: Mapping[str, str], kind: GateKind) -> list[GateCheck]:
    """Return the checks that ``command`` prints; a crash, a hang or anything but checks is one FAILED check."""
    output, errors, problem = _run(command, environ)
    try:
        checks = msgspec.json.decode(output, type=list[GateCheck])
    except msgspec.DecodeError:
        checks = []
        problem = problem or "its output is not a list of checks"
    if checks and not problem:
        return checks
    last = " | ".join((errors or output.decode(errors="replace")).strip().splitlines()[-4:])
    return [
        GateCheck(
            name="self-test",
            outcome="FAILED",
            observed=f"{problem or 'it made no check'}: {last or 'no output'}",
            expected="the self-test runs to its end",
            remedy=_REMEDY.format(kind=kind),
        )
    ]


def _run(command: Sequence[str], environ: Mapping[str, str]) -> tuple[bytes, str, str]:
    """Return (stdout, stderr, what went wrong). Exit code 1 means that a check failed, which is a result."""
    ended = finish(command, TIME_LIMIT_S, cwd=PROJECT, environ=environ)
    problem = "" if ended.code in {0, 1} else f"it ended with exit code {ended.code}"
    if ended.timed_out:
        problem = f"no result after {TIME_LIMIT_S:g} s"
    return ended.stdout, ended.stderr.decode(errors="replace"), problem
