"""``gpu-exam doctor`` tells a person, a script and a pipe whether this machine is fit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.cli import doctor as module
from harness.cli.doctor import doctor
from harness.devices.gate.run import overall
from harness.devices.leases import FOLDER_VARIABLE
from harness.observe.outcome import Gate, GateCheck
from tests.fakes.fake_nvml import DRIVER_NOT_LOADED, FakeGpu, FakeNvml, h100

GOOD = GateCheck(name="matrix product bf16", outcome="PASSED", observed="0.37 eps", expected="<= 2 eps")
BAD = GateCheck(
    name="ECC", outcome="FAILED", observed="GPU 0: 2 uncorrected", expected="0 uncorrected", remedy="reset it"
)


@pytest.fixture(autouse=True)
def own_leases(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the leases of these tests to themselves."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "leases"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def pretend(
    monkeypatch: pytest.MonkeyPatch, gpus: list[FakeGpu], *checks: GateCheck, **fake: Any
) -> list[tuple[str, int]]:
    """Give the doctor these cards and this gate; return what the gate was asked for."""
    asked: list[tuple[str, int]] = []

    def gate(kind: str, devices: int, out: Path, **_: Any) -> Gate:
        asked.append((kind, devices))
        return Gate(outcome=overall(list(checks)), checks=list(checks))

    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(gpus, **fake))
    monkeypatch.setattr(module, "run_gate", gate)
    return asked


def test_laptop_without_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a GPU one line says so and why, and under auto that is no failure."""
    asked = pretend(monkeypatch, [], GOOD, init_error=DRIVER_NOT_LOADED)
    assert doctor([]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "no GPU found" in line]
    assert line.endswith("no GPU found: the NVIDIA driver does not answer: Driver Not Loaded")
    assert asked == [("cpu", 1)]


def test_cuda_on_a_laptop_without_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Who asks for cuda and has none gets exit code 1, the reason and a remedy, from the real gate."""
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml([], init_error=DRIVER_NOT_LOADED))
    assert doctor(["--device", "cuda", "--out", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "FAILED   device" in out
    assert "remedy: " in out
    assert out.splitlines()[-1].startswith("FAILED: ")


def test_cards_are_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Model, driver, CUDA, memory, clocks, ECC, throttling and topology are all there."""
    links = ["00000000:17:00.0"] * 18, ["00000000:07:00.0"] * 18
    asked = pretend(monkeypatch, [h100(0, nvlinks=links[0]), h100(1, nvlinks=links[1])], GOOD)
    assert doctor(["--devices", "2"]) == 0
    out = capsys.readouterr().out
    assert asked == [("cuda", 2)]
    assert "580.159.03, runs CUDA up to 13.0" in out
    assert "NVIDIA H100 80GB HBM3, 0.0 of 80.0 GiB used, 34 C, 345 of 1980 MHz, 72 of 700 W, ECC 0" in out
    assert "clocks held by: gpu idle" in out
    assert [line.split() for line in out.splitlines() if line.startswith("  GPU 0 ")][-1] == ["GPU", "0", "X", "NV18"]


def test_silent_card_has_dashes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What a card does not tell is a dash, and a lost card says what is wrong with it."""
    pretend(monkeypatch, [h100(0, unsupported=frozenset({"nvmlDeviceGetPowerUsage"})), h100(1, lost=True)], GOOD)
    doctor([])
    out = capsys.readouterr().out
    assert "- of 700 W" in out
    assert "a GPU that does not answer: GPU is lost" in out


def test_failed_check_has_its_remedy_below(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A failed check is followed by one line that says what to do, and the exit code is 1."""
    pretend(monkeypatch, [h100()], GOOD, BAD)
    assert doctor([]) == 1
    lines = capsys.readouterr().out.splitlines()
    row = next(number for number, line in enumerate(lines) if line.startswith("  FAILED  ECC"))
    assert lines[row + 1].strip() == "remedy: reset it"
    assert lines[-1] == "FAILED: 1 passed, 1 failed"


def test_columns_are_aligned(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The columns of the checks start at the same place in every row."""
    pretend(monkeypatch, [h100()], GOOD, BAD)
    doctor([])
    lines = capsys.readouterr().out.splitlines()
    header = next(line for line in lines if "observed" in line)
    rows = [line for line in lines if line.startswith(("  PASSED", "  FAILED "))]
    assert [line.index("0.37") if "0.37" in line else line.index("GPU 0") for line in rows] == [
        header.index("observed")
    ] * 2


def test_ascii_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A name with other characters or line ends reaches a pipe escaped and on one line."""
    pretend(monkeypatch, [h100(name="GPU \u00e9\nX")], GOOD)
    assert doctor([]) == 0
    out = capsys.readouterr().out
    assert out.isascii()
    assert "GPU \\xe9 X," in out


def test_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json everything is one object, and the exit code stays."""
    pretend(monkeypatch, [h100()], BAD)
    assert doctor(["--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["outcome"], data["kind"], data["gpus"][0]["uuid"]) == ("FAILED", "cuda", h100().uuid)
    assert data["gate"]["checks"][0]["remedy"] == "reset it"
    assert data["facts"]["python"]


@pytest.mark.parametrize("argv", [["--devices", "0"], ["--devices", "two"], ["--device", "tpu"], ["--nonsense"], ["x"]])
def test_wrong_command_line(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong command line is exit code 2 and a sentence on stderr."""
    assert doctor(argv) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("gpu-exam doctor: error: ")
    assert (captured.err.count("\n"), captured.out) == (1, "")


def test_wrong_visible_devices(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong CUDA_VISIBLE_DEVICES is exit code 2 and one sentence, without a traceback."""
    pretend(monkeypatch, [h100()], GOOD)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    assert doctor([]) == 2
    assert capsys.readouterr().err.startswith("gpu-exam doctor: error: CUDA_VISIBLE_DEVICES: there is no GPU '5'")


def test_hidden_gpus_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A GPU that is hidden by the user's own variable is not a missing driver."""
    pretend(monkeypatch, [h100()], GOOD)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert doctor([]) == 0
    assert "no GPU found: CUDA_VISIBLE_DEVICES='' hides them" in capsys.readouterr().out


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Help is exit code 0 and names every flag."""
    with pytest.raises(SystemExit) as stop:
        doctor(["--help"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert all(flag in out for flag in ("--device", "--devices", "--out", "--json"))


def test_help_does_not_import_torch() -> None:
    """Printing help is instant: torch stays out of the process."""
    code = (
        "import contextlib, sys; from harness.cli.doctor import doctor\n"
        "with contextlib.suppress(SystemExit): doctor(['-h'])\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False, capture_output=True)
    assert done.returncode == 0
