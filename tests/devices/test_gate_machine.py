"""The host around the devices is fit, or the check says what is wrong and what helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.devices.gate import machine
from harness.devices.gate.host import Host
from harness.devices.gate.machine import DISTORTIONS, cores_present, disk_space, environment_clean, shared_memory
from harness.devices.leases import usable_cores


def host(tmp_path: Path, **parts: Any) -> Host:
    """A CPU host with one device."""
    return Host(**{"kind": "cpu", "devices": 1, "out_folder": tmp_path, "environ": {}, **parts})


def test_cores(tmp_path: Path) -> None:
    """The cpu kind needs a core for each rank, the emulated kind does not."""
    too_many = usable_cores() + 1
    assert cores_present(host(tmp_path, devices=too_many)).outcome == "FAILED"
    assert cores_present(host(tmp_path, devices=too_many, kind="emulated")).outcome == "PASSED"


@pytest.mark.parametrize(
    ("version", "outcome"),
    [("2.11.0", "PASSED"), ("2.13.0+cpu", "PASSED"), ("3.0.0.dev1", "PASSED"), ("2.10.1", "FAILED"), ("", "FAILED")],
)
def test_torch_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, outcome: str) -> None:
    """A torch that is too old or absent fails, and the remedy installs one."""
    monkeypatch.setattr(machine, "_installed", lambda name: version)
    check = machine.torch_version(host(tmp_path))
    assert check.outcome == outcome
    assert outcome == "PASSED" or check.remedy == "pip install 'torch>=2.11'"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUDA_LAUNCH_BLOCKING", "1"),
        ("NVIDIA_TF32_OVERRIDE", "0"),
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "0"),
        ("NCCL_DEBUG", "trace"),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL"),
        ("PYTHONMALLOC", "debug"),
    ],
)
def test_distorting_variable(tmp_path: Path, name: str, value: str) -> None:
    """A variable that distorts fails with its value and why, and the remedy unsets it."""
    check = environment_clean(host(tmp_path, environ={name: value}))
    assert check.outcome == "FAILED"
    assert check.observed.startswith(f"{name}={value}: ")
    assert check.remedy == f"unset {name}"


def test_harmless_values(tmp_path: Path) -> None:
    """The same variables switched off, empty or at a harmless level pass."""
    off = {each.name: "" for each in DISTORTIONS}
    off |= {
        "CUDA_LAUNCH_BLOCKING": "0",
        "NCCL_DEBUG": "WARN",
        "TORCH_DISTRIBUTED_DEBUG": "INFO",
        "PYTHONMALLOC": "malloc",
    }
    assert environment_clean(host(tmp_path, environ=off)).outcome == "PASSED"


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Less than a GiB is too little."""
    monkeypatch.setattr(machine, "_free_bytes", lambda folder: 2**30 - 1)
    assert disk_space(host(tmp_path)).outcome == "FAILED"


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder that cannot be made fails with the reason of the system."""
    (tmp_path / "file").write_text("")
    check = disk_space(host(tmp_path, out_folder=tmp_path / "file" / "out"))
    assert check.outcome == "FAILED"
    assert "Not a directory" in check.observed


@pytest.mark.parametrize(("devices", "outcome"), [(1, "PASSED"), (2, "FAILED")])
def test_shared_memory_of_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, devices: int, outcome: str) -> None:
    """The 64 MB that docker gives are just enough for one device and too little for two."""
    monkeypatch.setattr(machine, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(machine, "_free_bytes", lambda folder: 64 * 2**20)
    check = shared_memory(host(tmp_path, devices=devices))
    assert check.outcome == outcome
    assert outcome == "PASSED" or "--shm-size" in check.remedy


def test_no_shared_memory_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without the mount has nothing to check."""
    monkeypatch.setattr(machine, "SHARED_MEMORY", tmp_path / "absent")
    assert shared_memory(host(tmp_path)).outcome == "SKIPPED"
