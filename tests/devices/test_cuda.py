"""One GPU as a device: each question goes to the right function of torch, about the right card."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.devices.base import Device
from harness.devices.select import open_device

GIB = 2**30


class FakeCuda:
    """Stands for ``torch.cuda`` with cards of one kind; remembers what it was told."""

    def __init__(self, capability: tuple[int, int] = (9, 0)) -> None:
        self.capability = capability
        self.told: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        answers = {
            "get_device_name": "NVIDIA H100 80GB HBM3",
            "get_device_capability": self.capability,
            "get_device_properties": SimpleNamespace(total_memory=80 * GIB),
            "max_memory_allocated": 3 * GIB,
        }

        def call(*args: Any) -> Any:
            self.told.append((name, *args))
            return answers.get(name)

        return call


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    """Return the functions of torch that the device calls."""
    made = FakeCuda()
    monkeypatch.setattr(torch, "cuda", made)
    return made


@pytest.fixture
def device(fake: FakeCuda) -> Device:
    """Return the device of local rank 1."""
    opened = open_device("cuda", 1)
    assert fake.told == [("set_device", 1)]
    fake.told.clear()
    return opened


def test_rank_takes_its_own_card(device: Device) -> None:
    """By its local rank."""
    assert (device.kind, device.backend, device.torch_device) == ("cuda", "nccl", torch.device("cuda", 1))
    assert device.name() == "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("capability", "refused"),
    [((7, 0), {"tf32", "bf16"}), ((7, 5), {"tf32", "bf16"}), ((8, 0), set()), ((9, 0), set()), ((12, 0), set())],
)
def test_formats_need_the_right_generation(
    device: Device, fake: FakeCuda, capability: tuple[int, int], refused: set[str]
) -> None:
    """TF32 and BF16 came with compute capability 8.0; the sentence says what the card has."""
    fake.capability = capability
    reasons = {precision: device.refuses(precision) for precision in ("fp32", "tf32", "bf16", "fp16")}
    assert {precision for precision, reason in reasons.items() if reason} == refused
    for precision in refused:
        assert f"precision {precision} needs compute capability 8.0" in reasons[precision]
        assert f"has {capability[0]}.{capability[1]}" in reasons[precision]


@pytest.mark.parametrize(("limit", "share"), [(8 * GIB, 0.1), (80 * GIB, 1.0), (200 * GIB, 1.0)])
def test_memory_limit_is_a_share_of_the_card(device: Device, fake: FakeCuda, limit: int, share: float) -> None:
    """Never more than all of it: torch refuses that."""
    device.limit_memory(limit)
    assert fake.told[-1] == ("set_per_process_memory_fraction", pytest.approx(share), 1)


def test_waiting_and_peak_are_those_of_the_own_card(device: Device, fake: FakeCuda) -> None:
    """Another rank's card is none of its business."""
    device.synchronize()
    device.start_peak()
    assert device.peak_bytes() == 3 * GIB
    assert fake.told == [("synchronize", 1), ("reset_peak_memory_stats", 1), ("max_memory_allocated", 1)]
