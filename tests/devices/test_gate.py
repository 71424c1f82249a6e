"""The integrity gate lets a fit host through and names, with a remedy, each thing that makes one unfit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.devices.gate import machine, run, torch_process
from harness.devices.gate.host import Host
from harness.devices.gate.machine import DISTORTIONS, cores_present, disk_space, environment_clean, shared_memory
from harness.devices.gate.run import CHECKS, overall, run_gate
from harness.devices.gate.torch_process import run_selftest, selftest_checks
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
    mig_slice,
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


def host(tmp_path: Path, **parts: Any) -> Host:
    """A CPU host with one device."""
    return Host(**{"kind": "cpu", "devices": 1, "out_folder": tmp_path, "environ": {}, **parts})


def test_cpu_gate_passes_here(tmp_path: Path) -> None:
    """This host passes, self-test included, in the order of the report."""
    environ = {**os.environ, FOLDER_VARIABLE: str(tmp_path / "leases")}
    gate = run_gate("cpu", 1, tmp_path / "new", environ=environ)
    failed = [check for check in gate.checks if check.outcome not in {"PASSED", "SKIPPED"}]
    assert (gate.outcome, failed) == ("PASSED", [])
    names = list(by_name(gate))
    assert names[:3] == ["device", "lease", "torch version"]
    assert names[-1] == "collectives"


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


@pytest.mark.parametrize(
    ("code", "observed"),
    [
        ("import os; print('near the end', flush=True); os.abort()", "exit code -6: near the end"),
        ("import sys; sys.exit('libcuda is broken')", "not a list of checks: libcuda is broken"),
        ("print('hello')", "not a list of checks: hello"),
        ("print('[]')", "it made no check: []"),
        ("pass", "not a list of checks: no output"),
        ("raise SystemExit(7)", "exit code 7: no output"),
    ],
)
def test_broken_selftest_fails(code: str, observed: str) -> None:
    """A self-test that crashes or prints anything but checks is one failed check with its last lines."""
    (check,) = selftest_checks([sys.executable, "-c", code], os.environ, "cpu")
    assert check.outcome == "FAILED"
    assert observed in check.observed
    assert "harness.devices.selftest --device cpu" in check.remedy


def test_hung_selftest_leaves_no_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A self-test that hangs fails after its time limit, and its ranks end with it."""
    monkeypatch.setattr(torch_process, "TIME_LIMIT_S", 1.5)
    pid = tmp_path / "pid"
    (check,) = selftest_checks(["sh", "-c", f"sleep 60 & echo $! > {pid}; wait"], os.environ, "cpu")
    state = Path(f"/proc/{pid.read_text().strip()}/stat")
    assert check.observed == "no result after 1.5 s: no output"
    assert not state.exists() or state.read_text().split()[2] == "Z"


def test_mig_instances_are_tested_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process can use one MIG instance only, so each gets a self-test of its own."""
    check = '[{"name": "n", "outcome": "PASSED", "observed": "\'$CUDA_VISIBLE_DEVICES\'", "expected": ""}]'
    command = ["sh", "-c", f"echo '{check}'"]
    monkeypatch.setattr(torch_process, "selftest_command", lambda kind, devices: command)
    ids = [mig_slice(0).uuid, mig_slice(1).uuid]
    checks = run_selftest("cuda", ids, os.environ)
    assert [check.observed for check in checks] == ids
    assert len({check.name for check in checks}) == 2


def test_failing_checks_are_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1 with a list of checks is the self-test's answer, not a crash."""
    bad = {"name": "n", "outcome": "FAILED", "observed": "o", "expected": "e"}
    code = f"import sys; print({json.dumps(json.dumps([bad]))}); sys.exit(1)"
    assert selftest_checks([sys.executable, "-c", code], os.environ, "cpu") == [GateCheck(**bad)]  # type: ignore[arg-type]


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
