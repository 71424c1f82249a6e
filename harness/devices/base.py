"""What does the engine need to know about a device? Clock, memory, limits and what it can compute."""

from __future__ import annotations

from typing import Protocol

import torch


class Device(Protocol):
    """One device of one rank."""

    kind: str
    backend: str
    """Name of the torch.distributed backend."""

    @property
    def torch_device(self) -> torch.device:
        """Where tensors go."""

    def name(self) -> str:
        """Return the model of the device as its vendor calls it."""

    def refuses(self, precision: str) -> str:
        """Return why this device cannot compute in ``precision``, or an empty string."""

    def synchronize(self) -> None:
        """Wait until all queued work is done."""

    def limit_memory(self, limit_bytes: int) -> None:
        """Make an allocation beyond ``limit_bytes`` fail."""

    def start_peak(self) -> None:
        """Begin to measure the peak memory."""

    def peak_bytes(self) -> int:
        """Return the most memory in use since ``start_peak``, in bytes."""
