"""What is known of one GPU at one moment?"""

from __future__ import annotations

from dataclasses import dataclass

THROTTLE_FAULTS = frozenset({"hw slowdown", "sw thermal slowdown", "hw thermal slowdown", "hw power brake slowdown"})
"""Reasons that no healthy, cooled card shows. The others are benign: idle, a clock that somebody set, or the power cap,
which is the normal state of a card at full load."""


@dataclass(frozen=True, kw_only=True)
class GpuState:
    """One device that CUDA can use, as NVML sees it now: a whole GPU or a MIG instance.

    None stands for a query that the card, the driver or the container does not support. Clocks, temperature, power, ECC
    and throttling of a MIG instance are those of its GPU.
    """

    index: int
    """Position of the GPU in PCI bus order; MIG instances share the index of their GPU."""
    uuid: str
    """``GPU-...`` or ``MIG-...``, as CUDA_VISIBLE_DEVICES accepts it; empty when the card does not answer."""
    name: str
    parent_uuid: str = ""
    """The UUID of the GPU that a MIG instance is a part of; empty for a whole GPU."""
    error: str = ""
    """Why the card does not answer (lost from the bus, needs a reset); empty when it does."""
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    """Without what the driver reserves for itself, where the driver tells them apart."""
    memory_listed_bytes: int | None = None
    """The part of the used memory that belongs to processes which NVML lists, desktop programs included."""
    ecc_uncorrected: int | None = None
    """Uncorrected memory errors since the driver was loaded."""
    row_remap_pending: bool | None = None
    row_remap_failed: bool | None = None
    throttle_reasons: tuple[str, ...] | None = None
    """What holds the clocks down now, benign or not: see ``throttle_faults``."""
    temperature_c: int | None = None
    sm_clock_mhz: int | None = None
    sm_clock_max_mhz: int | None = None
    utilisation_percent: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    other_pids: tuple[int, ...] | None = None
    """Processes with a CUDA context on the device, this process excepted."""
    driver_version: str | None = None
    cuda_driver_version: str | None = None
    """The newest CUDA that the driver runs, as ``13.0``."""

    @property
    def throttle_faults(self) -> list[str]:
        """The throttle reasons that are a fault."""
        return [reason for reason in self.throttle_reasons or () if reason in THROTTLE_FAULTS]
