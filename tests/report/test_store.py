"""Is what was written what is read, whatever was in it?"""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec
import pytest

from harness.diagnose.finding import Diagnosis, Evidence, Finding
from harness.errors import UsageError
from harness.report.store import encode, read_results, replace_file
from tests.report.incidents import run, scheduler_incident
from tests.report.sample import check, sample

PLACE = ("s", "c", "w", "cpu")


def test_store_round_trip(tmp_path: Path) -> None:
    """Results come back with every value that they had."""
    replace_file(tmp_path / "results.json", encode(sample()))
    back = read_results(tmp_path / "results.json")
    assert json.loads(encode(back)) == json.loads(encode(sample()))


def test_store_writes_strict_json_for_numbers_that_are_not_finite(tmp_path: Path) -> None:
    """NaN is null in a number and words where text may stand, so that it is told apart from missing."""
    evidence = Evidence(name="n", value=math.inf, unit="", threshold="", source="")
    finding = Finding(category="precision", cause="c", confidence=1, evidence=[evidence], confirm="", action="")
    incident = msgspec.structs.replace(
        scheduler_incident(),
        runs=[run("suspect", "x", "fp16", math.nan, None, loss=[(0, math.nan)])],
        diagnosis=Diagnosis(status="diagnosed", findings=[finding]),
    )
    results = sample(checks=[check(PLACE, "control", "FAILED", observed=math.nan)], incidents=[incident])
    (tmp_path / "results.json").write_bytes(encode(results))
    back = read_results(tmp_path / "results.json")
    assert back.checks[0].observed == "not finite"
    assert back.incidents[0].runs[0].val_metric is None
    assert back.incidents[0].runs[0].loss == [(0, None)]
    assert back.incidents[0].diagnosis is not None
    assert back.incidents[0].diagnosis.findings[0].evidence[0].value == "not finite"


def test_store_accepts_whatever_describes_an_environment() -> None:
    """Paths, numbers as names and broken file names become text."""
    odd = {"path": Path("/x"), 3: {"nan": math.nan}, "name": "caf\udce9", "set": {1}}
    found = json.loads(encode(sample(environment=odd)))["environment"]
    assert found == {"path": "/x", "3": {"nan": None}, "name": "caf\\udce9", "set": [1]}


@pytest.mark.parametrize("content", [b"", b"{", b'{"schema": "x"}', b"\xff\xfe"])
def test_store_refuses_what_is_no_results_file(tmp_path: Path, content: bytes) -> None:
    """One sentence that names the file."""
    path = tmp_path / "results.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"results\.json: not a results\.json of this version"):
        read_results(path)


def test_store_names_a_missing_file(tmp_path: Path) -> None:
    """A wrong path is the user's mistake, not a traceback."""
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_results(tmp_path / "results.json")


def test_store_names_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A file where the folder should be is said in one sentence."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"report\.html: cannot be written"):
        replace_file(tmp_path / "file" / "report.html", b"")


def test_store_leaves_the_old_file_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page that was there stays whole, and nothing half-written is left."""
    path = tmp_path / "report.html"
    path.write_bytes(b"old")

    def refuse(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(UsageError, match="No space left"):
        replace_file(path, b"new")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("report.html", b"old")]
