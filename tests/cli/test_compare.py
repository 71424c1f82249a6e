"""Does ``gpu-exam compare`` vary one part, refuse everything else, and keep what it measured?"""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from harness.cli.compare import _text
from harness.cli.main import main
from harness.config import RunSpec, changed, digest
from harness.devices.leases import FOLDER_VARIABLE, lease
from harness.experiment.compare import contrast
from harness.experiment.decide import decide
from harness.observe.evidence import read_records, verify
from harness.runs import read_run
from tests.cli.commands import LIMIT_S, start
from tests.experiment import arms

RunFolder = Callable[[str], Path]

TINY = ["--size", "tiny", "--max-steps", "10", "--val-interval", "10", "--device", "cpu"]


@pytest.fixture(autouse=True)
def own_leases(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the leases of other sessions on this host alone."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path_factory.getbasetemp() / "leases"))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a comparison of two precisions, two repeats each."""
    out = tmp_path_factory.mktemp("compare") / "out"
    assert main(["compare", "--vary", "precision=fp32,bf16", "--repeats", "2", *TINY, "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def result(measured: Path) -> dict[str, Any]:
    """Its result."""
    data: dict[str, Any] = json.loads((measured / "comparison.json").read_text())
    return data


def test_result_has_ratios_and_a_decision(result: dict[str, Any]) -> None:
    """Each arm has its speed, loss of quality and memory against the baseline, with their spread, and a decision."""
    (arm,) = result["arms"]
    assert (result["varied"], result["baseline"]["value"], arm["value"]) == ("precision", "fp32", "bf16")
    assert arm["decision"] in {"adopt", "adopt with a fix", "reject", "inconclusive"}
    assert arm["reason"]
    for name in ("speed_ratio", "metric_loss", "memory_ratio"):
        spread = arm[name]
        assert spread["low"] <= spread["middle"] <= spread["high"]
        assert all(math.isfinite(value) for value in spread.values())


def test_evidence_of_a_comparison(measured: Path) -> None:
    """Each timed run is a record with its command and numbers, and the chain is closed."""
    report = verify(measured)
    records = [record for record in read_records(measured) if record.kind == "check"]
    assert report.problems == []
    assert [record.subject for record in records] == [
        "arm fp32, seed 42",
        "arm fp32, seed 43",
        "arm bf16, seed 42",
        "arm bf16, seed 43",
    ]
    assert all(record.command[:2] == ["python", "train.py"] and record.values["loss"] for record in records)


def test_repeats_are_interleaved(measured: Path) -> None:
    """Arms take turns, so that a drift of the machine meets all of them."""
    started = {seconds(read_run(folder)): folder.name for folder in measured.glob("runs/*") if folder.is_dir()}
    specs = [timed(precision, seed) for seed in (42, 43) for precision in ("fp32", "bf16")]
    assert [name for _, name in sorted(started.items()) if name in specs] == specs


def timed(precision: str, seed: int) -> str:
    """Return the folder name of one timed run."""
    flags = {"size": "tiny", "max_steps": 10, "val_interval": 10, "device": "cpu"}
    return digest(changed(RunSpec(), flags | {"precision": precision, "seed": seed}))


def seconds(run: Any) -> float:
    """Return when a run started."""
    return datetime.fromisoformat(run.start["time"]).timestamp()


def test_second_comparison_into_one_folder_is_refused(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was measured stays as it was."""
    before = (measured / "comparison.json").read_bytes()
    assert main(["compare", "--vary", "precision=fp32,bf16", *TINY, "--out", str(measured)]) == 2
    assert "it already holds a comparison; name another folder" in capsys.readouterr().err
    assert (measured / "comparison.json").read_bytes() == before


@pytest.mark.parametrize("order", [("plain", "reference"), ("reference", "plain")])
def test_recorded_runs(run_folder: RunFolder, capsys: pytest.CaptureFixture[str], order: tuple[str, str]) -> None:
    """Two run folders are compared from their records; one run each is no spread, so speed is not judged."""
    assert main(["compare", *(str(run_folder(name)) for name in order), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["arms"][0]["decision"] == "inconclusive"
    assert data["baseline"]["value"].endswith(f"({order[0]})")


def test_table_of_recorded_runs(run_folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """The table names the device kind, the part and the decision of each arm."""
    assert main(["compare", str(run_folder("reference")), str(run_folder("plain"))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("on cpu: ")
    assert lines[0].endswith(", 1 repeat, which has no spread")
    assert lines[1].split()[:4] == ["precision", "state", "speed", "memory"]
    assert "accuracy (higher is better)  loss of it (+ is worse)" in lines[1]
    assert ".." not in "".join(lines)
    assert lines[-1].startswith("bf16 (plain): inconclusive. ")


def test_number_that_is_not_finite_is_said_in_words() -> None:
    """No table and no sentence holds an infinite per cent."""
    good, bad = arms.arm(label="fp32"), arms.arm(arms.timed(math.nan), arms.timed(math.inf), label="bf16")
    found = contrast(bad, good)
    text = _text("precision", [good, bad], [found], [decide(bad, found, 0.01)], None)
    assert text.splitlines()[3].count("not finite") == 2
    assert "bf16: reject. the validation metric is not finite in any repeat" in text
    assert not {"inf", "nan", "inf%"}.intersection(text.split())


def test_not_comparable_names_every_difference(run_folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs that differ in more than the declared part are refused, and no difference is left out."""
    assert main(["compare", str(run_folder("other")), str(run_folder("reference"))]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "gpu-exam compare: error: not comparable: the runs also differ in "
        "batch_size: 32 and 64; lr: 0.01 and 0.001; seed: 7 and 42\n"
    )


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["one"], "compare takes two run folders, got 1"),
        (["one", "two", "three"], "compare takes two run folders, got 3"),
        (["one", "two"], "one: no run folder"),
        (
            ["one", "two", "--vary", "speed"],
            "--vary: unknown part 'speed' (did you mean 'seed'?); known are: workload, size",
        ),
        (["one", "two", "--vary", "precision=fp32,bf16"], "two run folders have their values; name the part alone"),
        (["--vary", "precision"], "--vary 'precision': expected part=value,value,... with at least two values"),
        (["--vary", "precision=fp32"], "expected part=value,value,... with at least two values"),
        (["--vary", "precision=fp32,"], "expected part=value,value,... with at least two values"),
        (["--vary", "precision=fp32,fp32"], "each value may be given once"),
        (["--vary", "speed=1,2"], "unknown part 'speed'; known are: workload, size"),
        (["--vary", "precision=fp32,fp7"], "--vary precision=fp7: precision: "),
        (["--vary", "precision=fp32,bf16", "--precision", "fp16"], "--precision is the part that --vary varies"),
        (["--vary", "precision=fp32,bf16", "--seed", "x"], "--seed: got 'x', expected int"),
        (["--vary", "precision=fp32,bf16", "--config", "absent.yaml"], "absent.yaml: cannot be read"),
        (
            ["--vary", "precision=fp32,bf16", "--device", "cuda"],
            "--device cuda: no GPU is visible here; --device cpu works",
        ),
        (["--vary", "devices=1,999", "--device", "cpu"], "--devices 999: on the cpu each needs a core of its own"),
    ],
)
def test_wrong_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: list[str], sentence: str
) -> None:
    """One sentence on standard error, nothing on standard output, and nothing left behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    status = main(["compare", *given])
    captured = capsys.readouterr()
    assert status == 2
    assert captured.err.startswith("gpu-exam compare: error: ")
    assert sentence in captured.err
    assert (len(captured.err.splitlines()), captured.out) == (1, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flag", "value"), [("--repeats", "0"), ("--repeats", "x"), ("--tolerance", "1"), ("--tolerance", "nan")]
)
def test_wrong_number(flag: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A number that makes no sense is refused by the command line itself, which says what is accepted."""
    assert main(["compare", flag, value]) == 2
    assert capsys.readouterr().err.startswith(f"gpu-exam compare: error: {flag}: got {value!r}, a ")


def test_workload_that_cannot_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file without the factory is told once, not once for each arm."""
    (tmp_path / "mine.py").touch()
    workload = f"{tmp_path}/mine.py:build"
    flags = ["--vary", "precision=fp32,bf16", *TINY, "--workload", workload, "--out", str(tmp_path / "out")]
    assert main(["compare", *flags]) == 2
    assert capsys.readouterr().err.count("has no function 'build'") == 1


def test_timed_comparisons_take_turns(tmp_path: Path) -> None:
    """Of two comparisons at the same time, the timed runs of one are over before those of the other begin."""
    flags = ["--vary", "precision=fp32,bf16", "--repeats", "2", *TINY]
    processes = [start("compare", *flags, "--out", str(tmp_path / name)) for name in ("one", "two")]
    for process in processes:
        assert process.communicate(timeout=LIMIT_S)[1] == ""
    one, two = sorted(span(tmp_path / name) for name in ("one", "two"))
    assert one[1] <= two[0]


def span(out: Path) -> tuple[float, float]:
    """Return when the timed runs of a comparison began and ended."""
    times = list(moments(out))
    return min(times), max(times)


def moments(out: Path) -> Iterator[float]:
    """Yield first and last time of each timed run."""
    for precision in ("fp32", "bf16"):
        for seed in (42, 43):
            records = read_run(out / "runs" / timed(precision, seed)).ranks[0].records
            yield from (datetime.fromisoformat(records[place]["time"]).timestamp() for place in (0, -1))


def test_comparison_waits_for_the_lease(tmp_path: Path) -> None:
    """While somebody else measures on the cores, no run of a comparison starts."""
    flags = ["--vary", "precision=fp32,bf16", "--repeats", "1", *TINY]
    with lease(1, "cpu", 0):
        process = start("compare", *flags, "--out", str(tmp_path))
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=5)
        assert not list(tmp_path.glob("runs/*/rank0.jsonl"))
    assert process.communicate(timeout=LIMIT_S)[1] == ""
    assert process.returncode == 0
