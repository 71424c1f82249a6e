"""The integrity gate lets a fit host through and names, with a remedy, each thing that makes one unfit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.devices.gate import machine, run
from harness.devices.gate.machine import DISTORTIONS
from harness.devices.gate.run import CHECKS, overall, run_gate
from harness.devices.leases import FOLDER_VARIABLE, lease, usable_cores
from harness.errors import UsageError
from harness.observe.nvml import open_nvml
from harness.observe.outcome import Gate, GateCheck
from tests.fakes.fake_nvml import (
    DRIVER_NOT_LOADED,
    GIB,
    HW_THERMAL,
    IDLE,
    POWER_CAP,
    FakeGpu,
    FakeNvml,
    h100,
)

GOOD = GateCheck(name="matrix product fp32", outcome="PASSED", observed="1.7 eps", expected="<= 9 eps")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A clean environment whose leases are this test's own."""
    return {FOLDER_VARIABLE: str(tmp_path / "leases")}


@pytest.fixture
def tested(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The devices that the self-test was asked for; it always passes."""
    asked: list[list[str]] = []

    def pretend(kind: str, visible: list[str], environ: dict[str, str]) -> list[GateCheck]:
        asked.append(list(visible))
        return [GOOD]

    monkeypatch.setattr(run, "run_selftest", pretend)
    return asked


def cuda_gate(gpus: list[FakeGpu], environ: dict[str, str], devices: int = 1, **fake: Any) -> Gate:
    """The gate of a host with these cards."""
    out = Path(environ[FOLDER_VARIABLE]).parent
    return run_gate("cuda", devices, out, wait_s=0, environ=environ, nvml=open_nvml(FakeNvml(gpus, **fake)))


def by_name(gate: Gate) -> dict[str, GateCheck]:
    """The checks by name."""
    return {check.name: check for check in gate.checks}


def test_cpu_gate_passes_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with enough room passes, self-test included, in the order of the report."""
    monkeypatch.setattr(machine, "_free_bytes", lambda folder: 2**40)
    environ = {name: value for name, value in os.environ.items() if name not in {each.name for each in DISTORTIONS}}
    gate = run_gate("cpu", 1, tmp_path / "new", environ={**environ, FOLDER_VARIABLE: str(tmp_path / "leases")})
    failed = [check for check in gate.checks if check.outcome not in {"PASSED", "SKIPPED"}]
    assert (gate.outcome, failed) == ("PASSED", [])
    names = list(by_name(gate))
    assert names[:3] == ["device", "lease", "torch version"]
    assert names[-1] == "collectives"


def test_emulated_ranks_outnumber_the_cores(environ: dict[str, str], tested: list[list[str]], tmp_path: Path) -> None:
    """Emulated devices are as many as one likes; the host below them is tested once, without a GPU."""
    gate = run_gate("emulated", usable_cores() + 1, tmp_path, environ=environ)
    assert (by_name(gate)["device"].outcome, tested) == ("PASSED", [[]])


def test_gate_does_not_import_torch() -> None:
    """The gate runs in the controller, which stays instant and without a CUDA context."""
    code = "import sys, harness.devices.gate.run; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False).returncode == 0


def test_healthy_cards_pass(environ: dict[str, str], tested: list[list[str]]) -> None:
    """Two healthy cards, one of them busy with benign reasons, pass; all visible cards are tested."""
    cards = [h100(0), h100(1, throttle=IDLE | POWER_CAP)]
    gate = cuda_gate(cards, environ)
    assert gate.outcome == "PASSED"
    assert tested == [[cards[0].uuid, cards[1].uuid]]
    assert len(gate.checks) == len(CHECKS["cuda"]) + 1


@pytest.mark.parametrize(
    ("condition", "name", "observed"),
    [
        ({"ecc": 2}, "ECC", "GPU 1: 2 uncorrected"),
        ({"remap_pending": True}, "row remap", "GPU 1: a row waits to be remapped"),
        ({"remap_failed": True}, "row remap", "GPU 1: a remap failed"),
        ({"throttle": HW_THERMAL}, "throttling", "GPU 1: hw thermal slowdown"),
        ({"processes": {4242: GIB}, "used": GIB}, "other processes", "GPU 1: process 4242"),
        ({"used": 30 * GIB}, "other processes", "GPU 1: 30.0 GiB used by a process that is not visible from here"),
        ({"lost": True}, "GPU answers", "GPU 1: GPU is lost"),
    ],
)
def test_sick_card_fails(
    environ: dict[str, str], tested: list[list[str]], condition: dict[str, Any], name: str, observed: str
) -> None:
    """One sick card among two fails the gate by exactly one check, with its number and a remedy."""
    gate = cuda_gate([h100(0), h100(1, **condition)], environ)
    (failed,) = [check for check in gate.checks if check.outcome == "FAILED"]
    assert gate.outcome == "FAILED"
    assert failed.name == name
    assert failed.observed.startswith(observed)
    assert failed.remedy


def test_sick_card_that_is_hidden(environ: dict[str, str], tested: list[list[str]]) -> None:
    """The remedy works: a card that CUDA_VISIBLE_DEVICES leaves out is not judged and not tested."""
    gate = cuda_gate([h100(0), h100(1, ecc=2)], {**environ, "CUDA_VISIBLE_DEVICES": "0"})
    assert (gate.outcome, tested) == ("PASSED", [[h100(0).uuid]])


def test_desktop_on_the_card(environ: dict[str, str], tested: list[list[str]]) -> None:
    """A desktop that draws on the card is not another job."""
    gate = cuda_gate([h100(used=2 * GIB, desktop={77: 2 * GIB})], environ)
    assert by_name(gate)["other processes"].outcome == "PASSED"


def test_windows_programs_are_in_no_list(
    environ: dict[str, str], tested: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under WSL the memory that Windows uses explains itself to nobody, and says nothing about other jobs."""
    monkeypatch.setattr("platform.release", lambda: "5.15.167.4-microsoft-standard-WSL2")
    gate = cuda_gate([h100(used=2 * GIB)], environ)
    assert by_name(gate)["other processes"].outcome == "PASSED"


def test_card_that_tells_nothing(environ: dict[str, str], tested: list[list[str]]) -> None:
    """What no card answers is skipped with its reason, never passed."""
    mute = frozenset({"nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetCurrentClocksEventReasons"})
    mute |= {"nvmlDeviceGetCurrentClocksThrottleReasons"}
    checks = by_name(cuda_gate([h100(unsupported=mute)], environ))
    assert (checks["ECC"].outcome, checks["throttling"].outcome) == ("SKIPPED", "SKIPPED")
    assert (
        by_name(cuda_gate([h100(0), h100(1, unsupported=mute)], environ))["ECC"].observed == "none, 1 of 2 do not tell"
    )


@pytest.mark.parametrize(
    ("gpus", "extra", "fake", "observed"),
    [
        ([], {}, {"init_error": DRIVER_NOT_LOADED}, "no GPU is visible (the NVIDIA driver does not answer"),
        ([h100()], {"CUDA_VISIBLE_DEVICES": ""}, {}, "no GPU is visible (CUDA_VISIBLE_DEVICES=)"),
        ([h100()], {}, {}, "1 visible: NVIDIA H100 80GB HBM3"),
    ],
)
def test_too_few_devices(
    environ: dict[str, str],
    tested: list[list[str]],
    gpus: list[FakeGpu],
    extra: dict[str, str],
    fake: dict[str, Any],
    observed: str,
) -> None:
    """Fewer devices than asked for fail, say what is there, and block the self-test instead of shrinking it."""
    gate = cuda_gate(gpus, {**environ, **extra}, devices=2, **fake)
    checks = by_name(gate)
    assert checks["device"].outcome == "FAILED"
    assert checks["device"].observed.startswith(observed)
    assert (checks["lease"].outcome, checks["self-test"].outcome, tested) == ("BLOCKED", "BLOCKED", [])
    assert gpus or checks["ECC"].outcome == "BLOCKED"


def test_wrong_visible_devices_is_a_usage_error(environ: dict[str, str]) -> None:
    """A typing mistake in CUDA_VISIBLE_DEVICES is the user's, not the device's."""
    with pytest.raises(UsageError, match="there is no GPU '9'"):
        cuda_gate([h100()], {**environ, "CUDA_VISIBLE_DEVICES": "9"})


def test_leased_device_fails_with_its_holder(environ: dict[str, str], tested: list[list[str]], tmp_path: Path) -> None:
    """A device that another session measures on is not tested, and its holder is named."""
    with lease(1, "cpu", 0, environ=environ):
        gate = run_gate("cpu", 1, tmp_path, wait_s=0, environ=environ)
    checks = by_name(gate)
    assert f"held by process {os.getpid()}" in checks["lease"].observed
    assert (checks["self-test"].outcome, tested) == ("BLOCKED", [])


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (["PASSED", "SKIPPED"], "PASSED"),
        (["PASSED", "FAILED"], "FAILED"),
        (["PASSED", "BLOCKED"], "FAILED"),
        (["INCONCLUSIVE"], "FAILED"),
        ([], "FAILED"),
    ],
)
def test_overall(outcomes: list[str], expected: str) -> None:
    """Only checks that passed or do not apply make the gate pass; no check at all does not."""
    checks = [GateCheck(name="n", outcome=word, observed="", expected="") for word in outcomes]  # type: ignore[arg-type]
    assert overall(checks) == expected
