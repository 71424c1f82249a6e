"""What is wrong with the GPUs, by the telemetry of one file? Findings, or what was checked, or what is missing."""

from __future__ import annotations

import msgspec

from harness.diagnose.diagnosis import TOLD_APART, UNKNOWN
from harness.diagnose.finding import Diagnosis, Evidence, Finding, Missing, Status
from harness.telemetry.hardware import FAULTS
from harness.telemetry.load import BUSY, busy_share, is_at_rest, power_share, under_load
from harness.telemetry.normal import MIG, POWER, UTILISATION, Gpu, Telemetry, mean
from harness.telemetry.seen import Fault, Seen
from harness.telemetry.sharing import CAUSE, strangers

AT_IDLE_POWER = 0.25
"""Share of the power limit below which a card that is always busy does no work worth its name: idle cards with a
context draw 10 to 20 % of it in data sheets, and kernels that only wait for another rank hardly more."""

QUERY = (
    "nvidia-smi --query-gpu=timestamp,index,utilization.gpu,memory.used,memory.total,power.draw,power.limit,"
    "power.default_limit,temperature.gpu,clocks.sm,clocks.max.sm,clocks_throttle_reasons.active,"
    "ecc.errors.uncorrected.volatile.total,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,"
    "pcie.link.width.max --format=csv -l 1 > smi.csv"
)

PROFILE = "profile ten steps with torch.profiler, export_chrome_trace('trace.json'), then: gpu-exam diagnose trace.json"


def diagnose_telemetry(telemetry: Telemetry) -> Diagnosis:
    """Return the faults of the GPUs in one file, surest first; or why it cannot be judged."""
    if telemetry.unusable:
        return _too_little([_missing(telemetry.unusable, "every category", QUERY)])
    gpus = telemetry.gpus()
    shared, doubts = strangers(telemetry)
    findings = shared + _faults(gpus, telemetry.file)
    findings += [] if findings else _spinning(gpus, telemetry.file)
    checked = [fault.cause for fault in FAULTS if any(fault.could_show(gpu) and under_load(gpu) for gpu in gpus)]
    checked += [] if doubts else [CAUSE]
    unseen = [fault for fault in FAULTS if fault.cause not in checked]
    missing = [*_against(gpus), *(_missing(fault.needs, fault.cause, QUERY) for fault in unseen), *doubts]
    status: Status = "not_enough_evidence" if _against(gpus) else "healthy"
    findings.sort(key=lambda finding: -finding.confidence)
    if findings:
        status = "diagnosed" if findings[0].confidence >= TOLD_APART else "inconclusive"
    return Diagnosis(status=status, findings=findings, missing=missing, checked=checked)


def _too_little(missing: list[Missing]) -> Diagnosis:
    return Diagnosis(status="not_enough_evidence", missing=missing)


def _missing(observation: str, needed_for: str, command: str) -> Missing:
    return Missing(observation=observation, needed_for=needed_for, command=command)


def _faults(gpus: list[Gpu], file: str) -> list[Finding]:
    """Return a finding for each cause, of all the GPUs that have it."""
    found: dict[str, list[Seen]] = {}
    of_gpu: dict[str, set[str]] = {}
    for fault in FAULTS:
        for gpu in gpus:
            if of_gpu.get(gpu.name, set()) & fault.rivals or (seen := fault.judge(gpu, file)) is None:
                continue
            found.setdefault(fault.cause, []).append(seen)
            of_gpu.setdefault(gpu.name, set()).add(fault.cause)
    return [_finding(fault, found[fault.cause], file) for fault in FAULTS if fault.cause in found]


def _finding(fault: Fault, seen: list[Seen], file: str) -> Finding:
    worst = max(seen, key=lambda one: one.confidence)
    others = [one.gpu for one in seen if one is not worst]
    also = f" The same of {', '.join(others)}." if others else ""
    return Finding(
        category="hardware",
        cause=fault.cause,
        confidence=worst.confidence,
        summary=f"{worst.gpu[:1].upper()}{worst.gpu[1:]}: {worst.told}.{also}",
        evidence=worst.evidence,
        confirm=fault.confirm,
        action=worst.action,
        place=f"{file}:{worst.line}",
    )


def _against(gpus: list[Gpu]) -> list[Missing]:
    """Return what keeps a file without a fault from being healthy: no load, or one that does not fill the GPUs."""
    if not any(gpu.has(UTILISATION) for gpu in gpus):
        cut = any(gpu.has(MIG) and any(one.get(MIG) for one in gpu.samples) for gpu in gpus)
        told = "the utilisation: a card cut into MIG instances has none" if cut else "the utilisation of the GPUs"
        command = "dcgmi dmon -e 1001,1002,155,100 -d 1000 > dcgmi.log" if cut else QUERY
        return [_missing(told, "every category", command)]
    if all(is_at_rest(gpu) for gpu in gpus):
        return [_missing("load: nothing runs in these samples", "every category", f"while the training runs: {QUERY}")]
    busy = [(gpu, share) for gpu in gpus if (share := busy_share(gpu)) is not None]
    slack = [(gpu, share) for gpu, share in busy if share < BUSY]
    if slack:
        told = ", ".join(f"{gpu.label} {share:.0f} %" for gpu, share in slack)
        return [_missing(f"the reason why GPUs work only part of the time ({told})", "every category", PROFILE)]
    if any(_spins(gpu) for gpu, _ in busy):
        return [_missing("what runs: fully busy at the power of an idle card", "every category", PROFILE)]
    return []


def _spins(gpu: Gpu) -> bool:
    """Whether a GPU is always busy and draws hardly more than at rest."""
    loaded = [one for one in under_load(gpu) if one.get(POWER) is not None and power_share(one)]
    return bool(loaded) and all(power_share(one) < AT_IDLE_POWER for one in loaded)


def _spinning(gpus: list[Gpu], file: str) -> list[Finding]:
    """Return that several GPUs wait for each other: always busy, at the power of idle cards."""
    spin = [gpu for gpu in gpus if (busy_share(gpu) or 0.0) >= BUSY and _spins(gpu)]
    if len(spin) < 2:
        return []
    first = under_load(spin[0])
    share = mean(power_share(one) for one in first) or 0.0
    told = ", ".join(f"{gpu.label} {_watts(gpu)}" for gpu in spin[:8])
    source = f"{file}:{first[0].line}"
    return [
        Finding(
            category="communication",
            cause=UNKNOWN,
            confidence=0.5,
            summary=(
                f"{len(spin)} GPUs are always busy at the power of idle cards ({told}): they spin in a kernel that "
                "does no work, mostly a collective that waits for a rank. Utilisation only says that some kernel runs."
            ),
            evidence=[
                _evidence("power_share", share, "of the limit", f"< {AT_IDLE_POWER}", source),
                _evidence("busy_share", busy_share(spin[0]) or 0.0, "%", f">= {BUSY:.0f}", source),
            ],
            confirm="py-spy dump --pid PID of each rank, twice: ranks that stay in the same collective hang.",
            action=(
                "Where they hang: find the rank that is elsewhere; run with NCCL_DEBUG=INFO, once more with "
                "NCCL_P2P_DISABLE=1. Where they advance, the kernels are too small: a larger batch, torch.compile."
            ),
            place=source,
        )
    ]


def _watts(gpu: Gpu) -> str:
    return f"{mean(one.get(POWER) or 0.0 for one in under_load(gpu)):.0f} W"


def _evidence(name: str, value: float, unit: str, threshold: str, source: str) -> Evidence:
    return Evidence(name=name, value=value, unit=unit, threshold=threshold, source=source)


def naming(diagnosis: Diagnosis, file: str) -> Diagnosis:
    """Say of which file something is missing, where there are several."""
    missing = [msgspec.structs.replace(one, observation=f"{file}: {one.observation}") for one in diagnosis.missing]
    return msgspec.structs.replace(diagnosis, missing=missing)
