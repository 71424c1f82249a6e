"""Does a run leave each record whole, and print exactly what it recorded?"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError, UsageError
from harness.observe.recorder import FORMATS, OutputClosedError, Recorder, number, standard

RECORDS: dict[str, dict[str, Any]] = {
    "step": {"step": 10, "loss": 2.345678901, "throughput": 1234.5678, "unit": "samples/s"},
    "validation": {"epoch": 2, "step_time": 0.00123456789, "val_metric": 0.9},
    "scaling": {"devices": 2, "samples_per_s": 1234567.0},
}

LINES = {
    "step": "step=10 loss=2.34568 throughput=1234.57 samples/s",
    "validation": "epoch=2 step_time=0.00123457 val_metric=0.9",
    "scaling": "n=2 1.23457e+06 samples/s",
}


def records_in(folder: Path, rank: int = 0) -> list[dict[str, Any]]:
    """Return the records of a rank."""
    return [json.loads(line) for line in (folder / f"rank{rank}.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("event", FORMATS)
def test_a_printed_line_is_the_text_of_its_record(
    event: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line has the promised form, and the record beside it the same numbers in full."""
    recorder = Recorder(tmp_path / "run", 0)
    recorder.write(event, **RECORDS[event])
    recorder.close()
    assert capsys.readouterr().out == LINES[event] + "\n"
    (record,) = records_in(tmp_path / "run")
    assert record.items() >= RECORDS[event].items()
    assert record["time"].endswith("+00:00")


def test_other_ranks_and_other_events_are_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rank 1 records in silence, and so does rank 0 what has no text form."""
    for rank, event in ((1, "step"), (0, "sample")):
        recorder = Recorder(tmp_path, rank)
        recorder.write(event, **RECORDS["step"])
        recorder.close()
        assert len(records_in(tmp_path, rank)) == 1
    assert capsys.readouterr().out == ""


def test_a_record_is_on_disk_as_soon_as_it_is_written(tmp_path: Path) -> None:
    """A process that dies afterwards has still said it."""
    recorder = Recorder(tmp_path, 1)
    recorder.write("start", spec={})
    assert records_in(tmp_path, 1)[0]["event"] == "start"
    recorder.close()


def test_a_folder_with_a_run_is_refused(tmp_path: Path) -> None:
    """Nothing is overwritten."""
    Recorder(tmp_path, 0).close()
    with pytest.raises(UsageError, match="already holds a run"):
        Recorder(tmp_path, 0)


def test_a_folder_that_cannot_be_made_is_a_users_mistake(tmp_path: Path) -> None:
    """The message names the flag and the folder."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match=r"--out .*file/run: cannot be written"):
        Recorder(tmp_path / "file" / "run", 0)


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    """Each write fails with one sentence; closing does not fail once more."""
    recorder = Recorder(tmp_path, 1)
    recorder.file.close()
    recorder.file = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115 - the recorder closes it
    with pytest.raises(HarnessError, match="/dev/full cannot be written"):
        recorder.write("start", spec={})
    recorder.close()


def test_a_closed_pipe_ends_the_run_with_its_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after ``train.py | head``: the record is written, and the rest of the output goes nowhere."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        recorder = Recorder(tmp_path, 0)
        with pytest.raises(OutputClosedError):
            recorder.write("step", **RECORDS["step"])
        recorder.write("validation", **RECORDS["validation"])
        recorder.close()
        monkeypatch.undo()
    assert [record["event"] for record in records_in(tmp_path)] == ["step", "validation"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.1, -0.0, 10**20, 5e-324])
def test_every_number_comes_back_as_it_was(value: float) -> None:
    """What JSON has no word for becomes a text, and a number again."""
    back = number(json.loads(json.dumps(standard({"x": [value]}), allow_nan=False))["x"][0])
    assert back is not None
    assert repr(back) == repr(float(value))


@pytest.mark.parametrize("value", [None, True, "7", "NaN", "", [], [1.0], {}, {"nan": 1}, 10**400])
def test_what_is_no_number_is_none(value: Any) -> None:
    """Booleans, other texts, lists and numbers beyond every float."""
    assert number(value) is None


def test_standard_reaches_into_everything() -> None:
    """Tuples become lists, and what is nested is converted too."""
    assert standard({"a": (math.nan, {"b": [math.inf, 1]}), "c": "inf"}) == {
        "a": ["nan", {"b": ["inf", 1]}],
        "c": "inf",
    }
