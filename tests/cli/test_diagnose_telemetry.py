"""Does ``gpu-exam diagnose smi.csv nccl.log`` give the documented output and exit codes?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli.main import main
from tests.telemetry.made import query, row, steady

HOT = {"reasons": "0x0000000000000020", "temp": "89", "clock": "1005 MHz"}

SILENT = "".join(
    f"[E ProcessGroupNCCL.cpp:737] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=512, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1802212 milliseconds before timing out.\n"
    for rank in (0, 1, 3)
)

LOG = "".join(f"step={step} loss={2.3 - step / 100}\n" for step in range(60))


def file(folder: Path, name: str, text: str) -> str:
    """Write a file and return its path."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        (steady(), "healthy", 0),
        (steady(**HOT), "diagnosed", 1),
        (steady(util="0 %"), "not enough evidence", 3),
        (steady(util="30 %"), "not enough evidence", 3),
        ("\n".join(row(at) for at in range(4)), "not enough evidence", 3),
        (SILENT, "diagnosed", 1),
    ],
)
def test_telemetry_status_and_exit_code(
    text: str, status: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the file is called."""
    assert main(["diagnose", file(tmp_path, "output", text)]) == code
    assert capsys.readouterr().out.startswith(f"status: {status}")


def test_the_words_of_a_hot_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was read, which GPU, the numbers, what to do."""
    path = file(tmp_path, "smi.csv", query(row(0), row(1, **HOT), row(2, **HOT)))
    main(["diagnose", path])
    out = capsys.readouterr().out
    assert "read: nvidia-smi --query-gpu, 3 sample(s) of 1 GPU(s), busy 98 to 98 % of the time" in out
    assert f"hardware: thermal_throttle at {path}:3 (confidence 90%)" in out
    assert "sm_clock = 1005 MHz" in out
    assert "to do    Cool it" in out


def test_the_json_of_telemetry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The fields of every diagnosis."""
    main(["diagnose", file(tmp_path, "smi.csv", steady(**HOT)), "--json"])
    data = json.loads(capsys.readouterr().out)
    assert set(data) == {"status", "findings", "missing", "checked", "known"}
    assert data["findings"][0]["evidence"][0]["source"].endswith("smi.csv:2, GPU 0")


def test_files_of_several_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Telemetry, lines of NCCL and a training log of one job, each read as what it is."""
    names = {"smi.csv": steady(**HOT), "nccl.log": SILENT, "train.log": LOG}
    assert main(["diagnose", *(file(tmp_path, name, text) for name, text in names.items())]) == 1
    out = capsys.readouterr().out
    assert "hardware: thermal_throttle" in out
    assert "straggler: unknown" in out
    assert "rank 2 did not report" in out


def test_a_log_that_opens_with_nvidia_smi_stays_a_training_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its losses are read."""
    main(["diagnose", file(tmp_path, "train.log", steady(2) + LOG)])
    assert "read: 60 x loss" in capsys.readouterr().out


def test_a_known_fault_of_a_gpu_does_not_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As everywhere."""
    known = file(tmp_path, "known.txt", "thermal_throttle: the room is hot in summer\n")
    assert main(["diagnose", file(tmp_path, "smi.csv", steady(**HOT)), "--known", known]) == 0
    assert "known, judged harmless: hardware: thermal_throttle" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--reference", "other.csv"], "--reference other.csv"), (["absent.csv"], "absent.csv: no such file")],
)
def test_what_does_not_go_with_telemetry(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence."""
    assert main(["diagnose", file(tmp_path, "smi.csv", steady()), *words]) == 2
    assert said in capsys.readouterr().err
