"""How healthy are the GPUs of this host, and which of them may this process use?

The only door to pynvml (distribution ``nvidia-ml-py``). Nothing here creates a CUDA context or imports torch, so it is
safe before CUDA_VISIBLE_DEVICES is decided. What a card or driver does not support is None; without NVML there is a
null sampler whose ``reason`` says why.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

from harness.observe.gpu_state import GpuState
from harness.observe.nvml_card import Card, text
from harness.observe.visible_devices import select_visible

_NO_NAME = "a GPU that does not answer"


class Nvml(Protocol):
    """What there is to ask."""

    @property
    def reason(self) -> str:
        """Why there is nothing to see; empty when NVML works."""

    def gpus(self) -> list[GpuState]:
        """Return the devices of this host now, MIG instances in place of their GPU."""

    def topology(self, gpus: Sequence[GpuState]) -> list[list[str]]:
        """Return the link of each pair in the words of ``nvidia-smi topo -m``: X, NV#, PIX, ..., SYS; ? if unknown."""

    def close(self) -> None:
        """Let go of NVML."""


@dataclass(frozen=True)
class NullNvml:
    """Stands in where there is no NVML: sees no device and says why."""

    reason: str

    def gpus(self) -> list[GpuState]:
        """Return nothing."""
        return []

    def topology(self, gpus: Sequence[GpuState]) -> list[list[str]]:
        """Return a matrix of unknown links."""
        return [["X" if a is b else "?" for b in gpus] for a in gpus]

    def close(self) -> None:
        """Do nothing."""


class PynvmlNvml:
    """NVML through pynvml, or through an object with the same functions."""

    reason = ""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._driver_version = _version(module, "nvmlSystemGetDriverVersion")
        cuda = _version(module, "nvmlSystemGetCudaDriverVersion")
        # NVML counts CUDA 13.0 as 13000.
        self._cuda_version = f"{int(cuda) // 1000}.{int(cuda) % 1000 // 10}" if cuda else None

    def gpus(self) -> list[GpuState]:
        """Return the devices of this host now, MIG instances in place of their GPU."""
        return [state for card in self._cards() for state in self._states(card)]

    def topology(self, gpus: Sequence[GpuState]) -> list[list[str]]:
        """Return the link of each pair in the words of ``nvidia-smi topo -m``."""
        cards = {card.index: card for card in self._cards()}
        return [[cards[a.index].link_to(cards[b.index]) for b in gpus] for a in gpus]

    def close(self) -> None:
        """Let go of NVML."""
        self._module.nvmlShutdown()

    def _cards(self) -> list[Card]:
        found: list[Card] = []
        for position in range(self._module.nvmlDeviceGetCount()):
            try:
                found.append(Card(self._module, len(found), self._module.nvmlDeviceGetHandleByIndex(position)))
            except self._module.NVMLError as error:
                # A card that this container or job may not use is counted here, and for CUDA it does not exist.
                if error.value != self._module.NVML_ERROR_NO_PERMISSION:
                    found.append(Card(self._module, len(found), None, str(error)))
        return found

    def _states(self, card: Card) -> list[GpuState]:
        if card.handle is None:
            return [GpuState(index=card.index, uuid="", name=_NO_NAME, error=card.error)]
        instances = card.mig_handles()
        if instances is None:
            return [self._state(card, card.handle, parent_uuid="")]
        parent = text(card.ask("nvmlDeviceGetUUID"))
        return [self._state(card, handle, parent) for handle in instances]

    def _state(self, card: Card, handle: Any, parent_uuid: str) -> GpuState:
        total, used = card.memory(handle)
        pids = card.compute_pids(handle)
        pending, failed = card.row_remaps()
        clock, max_clock = card.sm_clocks_mhz()
        return GpuState(
            index=card.index,
            uuid=text(card.ask("nvmlDeviceGetUUID", handle=handle)),
            name=text(card.ask("nvmlDeviceGetName", handle=handle)) or _NO_NAME,
            parent_uuid=parent_uuid,
            memory_total_bytes=total,
            memory_used_bytes=used,
            memory_listed_bytes=card.listed_bytes(handle),
            ecc_uncorrected=card.ecc_uncorrected(),
            row_remap_pending=pending,
            row_remap_failed=failed,
            throttle_reasons=card.throttle_reasons(),
            temperature_c=card.temperature_c(),
            sm_clock_mhz=clock,
            sm_clock_max_mhz=max_clock,
            utilisation_percent=card.utilisation_percent(handle),
            power_w=card.watts("nvmlDeviceGetPowerUsage"),
            power_limit_w=card.watts("nvmlDeviceGetEnforcedPowerLimit"),
            other_pids=None if pids is None else tuple(sorted(set(pids) - {os.getpid()})),
            driver_version=self._driver_version,
            cuda_driver_version=self._cuda_version,
            # Last, because the queries above are what finds out that a card is lost.
            error=card.error,
        )


def open_nvml(module: Any | None = None) -> Nvml:
    """Start NVML through ``module`` (default: the installed pynvml); a missing GPU or driver is never an error."""
    if module is None:
        try:
            module = importlib.import_module("pynvml")
        except ImportError:
            return NullNvml("the Python package nvidia-ml-py is not installed, so no NVIDIA driver can be asked")
    try:
        module.nvmlInit()
    except module.NVMLError as error:
        return NullNvml(f"the NVIDIA driver does not answer: {error}")
    return PynvmlNvml(module)


def visible_gpus(environ: Mapping[str, str], nvml: Nvml | None = None) -> list[GpuState]:
    """Return the devices that CUDA_VISIBLE_DEVICES leaves visible, in its order; all of them when it is not set.

    Raises UsageError for an entry that names no device, is ambiguous, or is given twice. Where NVML sees no device
    the list is empty, whatever the variable says.
    """
    if nvml is None:
        with closing(open_nvml()) as opened:
            return visible_gpus(environ, opened)
    gpus = nvml.gpus()
    return select_visible(gpus, environ) if gpus else []


def _version(module: Any, function: str) -> str | None:
    try:
        return text(getattr(module, function)())
    except module.NVMLError:
        return None
