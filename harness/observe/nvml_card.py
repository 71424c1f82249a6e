"""What does one physical GPU answer? The single NVML queries, with None for what is not supported.

Function and constant names are those of nvml.h; ``module`` is pynvml, handed in by ``harness.observe.nvml``.
"""

from __future__ import annotations

import platform
from typing import Any

THROTTLE_REASONS = {
    0x001: "gpu idle",
    0x002: "applications clocks setting",
    0x004: "sw power cap",
    0x008: "hw slowdown",
    0x010: "sync boost",
    0x020: "sw thermal slowdown",
    0x040: "hw thermal slowdown",
    0x080: "hw power brake slowdown",
    0x100: "display clock setting",
}
"""Origin: the nvmlClocksEventReason* bits."""

_SERIOUS = {15, 16}
"""NVML_ERROR_GPU_IS_LOST and NVML_ERROR_RESET_REQUIRED: the card is there and cannot be used."""

_LEVELS = {0: "PSB", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""NVML_TOPOLOGY_* -> the word of ``nvidia-smi topo -m``."""

_UNCORRECTED, _VOLATILE = 1, 0
_GPU_SENSOR = 0
_SM_CLOCK = 1
_SWITCH = 2
"""NVML_NVLINK_DEVICE_TYPE_SWITCH."""


class Card:
    """One physical GPU. ``handle`` is None when it could not even be opened; ``error`` then says why."""

    def __init__(self, module: Any, index: int, handle: Any, error: str = "") -> None:
        self._module = module
        self.index = index
        self.handle = handle
        self.error = error

    def ask(self, function: str, *args: Any, handle: Any = None) -> Any:
        """Return the answer of one NVML function about the card, or about ``handle``; None when there is none."""
        call = getattr(self._module, function, None)
        if call is None:
            return None
        try:
            return call(self.handle if handle is None else handle, *args)
        except self._module.NVMLError as error:
            if error.value in _SERIOUS:
                self.error = str(error)
            return None

    def mig_handles(self) -> list[Any] | None:
        """Return the MIG instances; None when the GPU is not cut into any."""
        mode = self.ask("nvmlDeviceGetMigMode")
        if not mode or not mode[0]:
            return None
        count = self.ask("nvmlDeviceGetMaxMigDeviceCount") or 0
        handles = (self.ask("nvmlDeviceGetMigDeviceHandleByIndex", slot) for slot in range(count))
        return [handle for handle in handles if handle is not None]

    def memory(self, handle: Any) -> tuple[int | None, int | None]:
        """Return (total, used) bytes; version 2 of the query leaves out what the driver reserves for itself."""
        version = getattr(self._module, "nvmlMemory_v2", None)
        memory = version and self.ask("nvmlDeviceGetMemoryInfo", version, handle=handle)
        memory = memory or self.ask("nvmlDeviceGetMemoryInfo", handle=handle)
        return (memory.total, memory.used) if memory else (None, None)

    def compute_pids(self, handle: Any) -> list[int] | None:
        """Return the processes that have a CUDA context."""
        processes = self.ask("nvmlDeviceGetComputeRunningProcesses", handle=handle)
        return None if processes is None else [process.pid for process in processes]

    def listed_bytes(self, handle: Any) -> int | None:
        """Return the memory of all processes that are listed, desktop programs included; None when it is not known."""
        if "microsoft" in platform.release().lower():
            # Under WSL the programs of Windows use the card too, and are in no list.
            return None
        kinds = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses")
        listed = [process for kind in kinds for process in self.ask(kind, handle=handle) or []]
        # A program that computes and draws is in both lists, with the same number.
        sizes = {process.pid: process.usedGpuMemory for process in listed}
        return None if None in sizes.values() else sum(sizes.values())

    def row_remaps(self) -> tuple[bool | None, bool | None]:
        """Return (pending, failed); before Ampere, where pages are retired instead, only what is pending."""
        rows = self.ask("nvmlDeviceGetRemappedRows")
        if rows is not None:
            return bool(rows[2]), bool(rows[3])
        pages = self.ask("nvmlDeviceGetRetiredPagesPendingStatus")
        return (None if pages is None else bool(pages)), None

    def ecc_uncorrected(self) -> int | None:
        """Return the uncorrected memory errors since the driver was loaded."""
        count = self.ask("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE)
        return None if count is None else int(count)

    def throttle_reasons(self) -> tuple[str, ...] | None:
        """Return in words what holds the clocks down now."""
        bits = self.ask("nvmlDeviceGetCurrentClocksEventReasons")
        if bits is None:
            bits = self.ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        if bits is None:
            return None
        unknown = bits & ~sum(THROTTLE_REASONS)
        words = [word for bit, word in THROTTLE_REASONS.items() if bits & bit]
        return (*words, f"reason {unknown:#x}") if unknown else tuple(words)

    def temperature_c(self) -> int | None:
        """Return the temperature of the chip in degrees Celsius."""
        degrees = self.ask("nvmlDeviceGetTemperature", _GPU_SENSOR)
        return None if degrees is None else int(degrees)

    def sm_clocks_mhz(self) -> tuple[int | None, int | None]:
        """Return (now, highest) clock of the multiprocessors in MHz."""
        return self.ask("nvmlDeviceGetClockInfo", _SM_CLOCK), self.ask("nvmlDeviceGetMaxClockInfo", _SM_CLOCK)

    def utilisation_percent(self, handle: Any) -> int | None:
        """Return the share of the last sampling period in which a kernel ran; a MIG instance has no such number."""
        rates = self.ask("nvmlDeviceGetUtilizationRates", handle=handle)
        return None if rates is None else int(rates.gpu)

    def watts(self, function: str) -> float | None:
        """Return the answer of a query that NVML gives in milliwatts, in watts."""
        milliwatts = self.ask(function)
        return None if milliwatts is None else milliwatts / 1000

    def link_to(self, other: Card) -> str:
        """Return how data travels to ``other``: X for itself, NV#, PIX, PXB, PHB, NODE, SYS, or ? when unknown."""
        if self.index == other.index:
            return "X"
        if self.handle is None or other.handle is None:
            return "?"
        bus, mine, theirs = other.bus_id(), self._nvlink_ends(), other._nvlink_ends()
        links = mine.count(bus) or min(mine.count("switch"), theirs.count("switch"))
        if links:
            return f"NV{links}"
        level = self.ask("nvmlDeviceGetTopologyCommonAncestor", other.handle)
        return _LEVELS.get(level, "?")

    def bus_id(self) -> str:
        """Return the PCI address; empty when unknown."""
        return text(getattr(self.ask("nvmlDeviceGetPciInfo"), "busId", ""))

    def _nvlink_ends(self) -> list[str]:
        links = range(getattr(self._module, "NVML_NVLINK_MAX_LINKS", 18))
        return [self._nvlink_end(link) for link in links if self.ask("nvmlDeviceGetNvLinkState", link)]

    def _nvlink_end(self, link: int) -> str:
        if self.ask("nvmlDeviceGetNvLinkRemoteDeviceType", link) == _SWITCH:
            return "switch"
        return text(getattr(self.ask("nvmlDeviceGetNvLinkRemotePciInfo", link), "busId", "unknown"))


def text(value: Any) -> str:
    """Return an NVML text as str: old releases of pynvml answer in bytes."""
    plain = value.decode(errors="replace") if isinstance(value, bytes) else value
    return "" if plain is None else str(plain)
