"""Which device does ``--device`` mean on this machine?"""

from __future__ import annotations

import importlib

import torch

from harness.devices.base import Device
from harness.errors import DeviceError, UsageError

KINDS = ("cuda", "cpu")
"""The kinds that exist; each is the file of its name in this folder."""


def resolve_kind(kind: str) -> str:
    """Turn ``auto`` into the kind that is here; a kind that is not here is an error that says what is."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if kind == "auto":
        return "cuda" if gpus else "cpu"
    if kind not in KINDS:
        raise UsageError(f"--device {kind}: this workload runs on {' or '.join(KINDS)}; nothing runs on {kind} yet")
    if kind == "cuda" and not gpus:
        raise DeviceError(f"--device cuda: torch {torch.__version__} sees no GPU here; --device cpu works")
    return kind


def check_count(kind: str, devices: int) -> None:
    """Refuse more ranks than devices; nothing shrinks silently."""
    if kind == "cuda" and devices > torch.cuda.device_count():
        raise DeviceError(f"--devices {devices}: only {torch.cuda.device_count()} GPU(s) visible")


def open_device(kind: str, local_rank: int) -> Device:
    """Return the device of one rank."""
    module = importlib.import_module(f"harness.devices.{kind}")
    device: Device = module.make(local_rank)
    return device
