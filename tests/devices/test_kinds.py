"""``auto`` becomes a kind without importing torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.config import RunSpec
from harness.devices import kinds
from harness.devices.kinds import resolved
from harness.errors import DeviceError
from tests.fakes.fake_nvml import h100


def pretend_gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Let NVML show this many GPUs."""
    monkeypatch.setattr(kinds, "visible_gpus", lambda environ: [h100(number) for number in range(count)])


@pytest.mark.parametrize(
    ("asked", "gpus", "kind"),
    [("auto", 0, "cpu"), ("auto", 1, "cuda"), ("cpu", 1, "cpu"), ("cuda", 1, "cuda"), ("emulated", 0, "emulated")],
)
def test_auto_takes_a_gpu_if_there_is_one(monkeypatch: pytest.MonkeyPatch, asked: str, gpus: int, kind: str) -> None:
    """Everything else of the spec stays."""
    pretend_gpus(monkeypatch, gpus)
    spec = RunSpec(device=asked, lr=0.5)  # type: ignore[arg-type]
    assert resolved(spec) == RunSpec(device=kind, lr=0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "devices", "gpus", "said"),
    [
        ("cuda", 1, 0, "--device cuda: no GPU is visible here; --device cpu works, gpu-exam doctor says why"),
        ("cuda", 4, 2, r"--devices 4: 2 GPU\(s\) visible"),
        ("auto", 4, 2, r"--devices 4: 2 GPU\(s\) visible"),
    ],
)
def test_more_ranks_than_gpus_are_refused(
    monkeypatch: pytest.MonkeyPatch, asked: str, devices: int, gpus: int, said: str
) -> None:
    """Nothing shrinks silently, and a GPU is not replaced by the host."""
    pretend_gpus(monkeypatch, gpus)
    with pytest.raises(DeviceError, match=said):
        resolved(RunSpec(device=asked, devices=devices))  # type: ignore[arg-type]


@pytest.mark.parametrize("asked", ["cpu", "auto"])
def test_more_ranks_than_cores_are_refused(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    """Each needs a core of its own; emulated devices share the host."""
    pretend_gpus(monkeypatch, 0)
    monkeypatch.setattr(kinds, "usable_cores", lambda: 4)
    with pytest.raises(DeviceError, match=r"--devices 5: .* and this process may use 4; accepted are 1 to 4$"):
        resolved(RunSpec(device=asked, devices=5))  # type: ignore[arg-type]
    assert resolved(RunSpec(device=asked, devices=4)).devices == 4  # type: ignore[arg-type]
    assert resolved(RunSpec(device="emulated", devices=64)).devices == 64


def test_question_is_answered_without_torch() -> None:
    """Help and collection stay instant."""
    code = (
        "import sys, harness.devices.kinds as k; k.resolved(k.RunSpec(device='cpu')); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True)
