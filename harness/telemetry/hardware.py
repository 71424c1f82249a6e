"""Which faults of a GPU are looked for, and what does it take to see each of them?"""

from __future__ import annotations

from harness.telemetry.card import memory_errors, narrow_link
from harness.telemetry.clocks import brake, capped, stuck, thermal
from harness.telemetry.nccl_hang import MISMATCHED
from harness.telemetry.normal import (
    ECC_ERRORS,
    MAX_SM_CLOCK,
    PCIE_GEN,
    PCIE_GEN_MAX,
    PCIE_WIDTH,
    PCIE_WIDTH_MAX,
    POWER,
    POWER_LIMIT,
    REPAIR_PENDING,
    SM_CLOCK,
    UTILISATION,
    Gpu,
)
from harness.telemetry.seen import Fault
from harness.telemetry.sharing import CAUSE


def _knows_reasons(gpu: Gpu) -> bool:
    return any(sample.reasons is not None for sample in gpu.samples)


def _has_clocks(gpu: Gpu) -> bool:
    return gpu.has(SM_CLOCK, MAX_SM_CLOCK)


FAULTS = (
    Fault(
        "ecc_errors",
        memory_errors,
        lambda gpu: gpu.has(ECC_ERRORS) or gpu.has(REPAIR_PENDING),
        "ecc.errors.uncorrected.volatile.total",
        "Run dcgmi diag -r 3 on the card alone; dmesg shows Xid 48, 63, 64, 94 or 95 at the time of the errors.",
    ),
    Fault(
        "thermal_throttle",
        thermal,
        _knows_reasons,
        "clocks_throttle_reasons.active",
        "Log temperature.gpu and clocks.sm while the load starts on the cold card: the clocks fall when it gets hot.",
    ),
    Fault(
        "power_throttle",
        brake,
        _knows_reasons,
        "clocks_throttle_reasons.active",
        "Run the same load on another card of the server and of another one: it is faster by the ratio of the clocks.",
        frozenset({"thermal_throttle"}),
    ),
    Fault(
        "power_cap",
        capped,
        lambda gpu: _has_clocks(gpu) and (_knows_reasons(gpu) or gpu.has(POWER, POWER_LIMIT)),
        "clocks.sm, clocks.max.sm and clocks_throttle_reasons.active",
        "Run the same load at a limit that is 10 % lower: the clocks must fall with it.",
        frozenset({"thermal_throttle", "power_throttle"}),
    ),
    Fault(
        "stuck_clock",
        stuck,
        lambda gpu: _has_clocks(gpu) and gpu.has(UTILISATION),
        "clocks.sm and clocks.max.sm",
        "Run a large matrix product for ten seconds and look at clocks.sm: a sound card is at its base clock at once.",
        frozenset({"thermal_throttle", "power_throttle", "power_cap"}),
    ),
    Fault(
        "narrow_pcie_link",
        narrow_link,
        lambda gpu: gpu.has(PCIE_WIDTH, PCIE_WIDTH_MAX) or gpu.has(PCIE_GEN, PCIE_GEN_MAX),
        "pcie.link.width.current and pcie.link.width.max",
        "Measure a copy from pinned memory: a Gen4 link of 16 lanes moves about 25 GB/s, of 8 lanes half of it.",
    ),
)
"""Asked in this order."""

TELEMETRY_CAUSES = (*(fault.cause for fault in FAULTS), CAUSE, MISMATCHED, "slow_interconnect")
"""Every cause that telemetry of GPUs or NCCL's lines can show."""
