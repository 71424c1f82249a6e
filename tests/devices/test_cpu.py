"""The host's cores as a device: one thread, real memory limits, and what it refuses."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.devices import cpu
from harness.devices.base import Device
from harness.devices.select import KINDS, check_count, open_device, resolve_kind
from harness.errors import DeviceError, UsageError

ROOT = Path(__file__).parents[2]

LIMITED = """
import torch
from harness.devices.cpu import make
device = make(0)
kept = torch.zeros(1)
device.limit_memory(64 * 2**20)
assert torch.zeros(4 * 2**20).sum() == 0
try:
    torch.zeros(32 * 2**20)
except RuntimeError as error:
    print(error)
"""

PEAK = """
import torch
from harness.devices.cpu import make
device = make(0)
torch.zeros(2**26).fill_(1)
device.start_peak()
before = device.peak_bytes()
torch.zeros(2**25).fill_(1)
print(before, device.peak_bytes())
"""


@pytest.fixture
def device() -> Device:
    """Return the device of rank 0."""
    return open_device("cpu", 0)


def test_device_computes_on_the_host_with_one_thread(device: Device) -> None:
    """As many ranks as cores then share the host fairly."""
    assert (device.kind, device.backend, device.torch_device.type) == ("cpu", "gloo", "cpu")
    assert torch.get_num_threads() == 1
    device.synchronize()


def test_name_is_the_processors(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its model, or at least its architecture."""
    assert device.name()
    monkeypatch.setattr(cpu, "_read", lambda path: "processor : 0\nmodel name : Some CPU @ 3 GHz: fast\n")
    assert device.name() == "Some CPU @ 3 GHz: fast"
    monkeypatch.setattr(cpu, "_read", lambda path: "")
    assert device.name() == platform.machine()


@pytest.mark.parametrize(("precision", "refused"), [("fp32", False), ("bf16", False), ("fp16", False), ("tf32", True)])
def test_only_tf32_is_refused(device: Device, precision: str, refused: bool) -> None:
    """It is a format of a GPU's units."""
    assert bool(device.refuses(precision)) == refused


def test_allocation_beyond_the_limit_fails_for_real() -> None:
    """16 MiB fit into 64, 128 do not."""
    assert "can't allocate memory" in output_of(LIMITED)


def test_peak_is_what_was_added_since_the_start() -> None:
    """128 MiB after the start count; 256 MiB that were there before, and are gone, do not."""
    before, after = (int(word) for word in output_of(PEAK).split())
    assert before < 2**24
    assert 2**27 * 0.9 < after < 2**27 * 1.2


def test_unreadable_proc_is_no_error(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hardened container hides it: the peak is then unknown, and 0."""
    monkeypatch.setattr(cpu, "_read", lambda path: "")
    device.start_peak()
    assert device.peak_bytes() == 0


@pytest.mark.parametrize(
    ("asked", "gpus", "kind"), [("auto", 0, "cpu"), ("auto", 2, "cuda"), ("cpu", 2, "cpu"), ("cuda", 1, "cuda")]
)
def test_auto_takes_a_gpu_if_there_is_one(monkeypatch: pytest.MonkeyPatch, asked: str, gpus: int, kind: str) -> None:
    """And a kind that was asked for is what it is."""
    pretend_gpus(monkeypatch, gpus)
    assert resolve_kind(asked) == kind


def test_absent_gpu_is_a_device_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence says what works."""
    pretend_gpus(monkeypatch, 0)
    with pytest.raises(DeviceError, match=r"torch .* sees no GPU here; --device cpu works"):
        resolve_kind("cuda")


@pytest.mark.parametrize("kind", ["emulated", "tpu"])
def test_kind_that_runs_nothing_yet_is_refused(kind: str) -> None:
    """The sentence says which kinds there are."""
    with pytest.raises(UsageError, match=f"--device {kind}: this workload runs on cuda or cpu"):
        resolve_kind(kind)


def test_more_ranks_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing shrinks silently; ranks on the host may outnumber its cores."""
    pretend_gpus(monkeypatch, 2)
    check_count("cuda", 2)
    check_count("cpu", 64)
    with pytest.raises(DeviceError, match=r"--devices 3: only 2 GPU\(s\) visible"):
        check_count("cuda", 3)


def test_each_kind_has_its_file() -> None:
    """What the selection offers can be opened."""
    assert all((ROOT / "harness/devices" / f"{kind}.py").exists() for kind in KINDS)


def pretend_gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Let torch see this many GPUs."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


def output_of(code: str) -> str:
    """Return what a process of its own prints: a limit would stay in this one."""
    done: Any = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return str(done.stdout)
