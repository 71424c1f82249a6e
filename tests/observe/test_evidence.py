"""Does the evidence log keep what happened, for one writer, in a form that can be verified?"""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.errors import EvidenceError
from harness.observe import evidence
from harness.observe.chain import MAX_LINE_BYTES, NO_RECORD, Tolerance
from harness.observe.evidence import FILE_NAME, Entry, EvidenceLog, read_records, verify

PLACE = {"cpu": "a", "cores_available": 2}


def entry(place: str, **fields: Any) -> Entry:
    """Return a passed check with some fields of its own."""
    given: dict[str, Any] = {"command": ["python", "train.py"], "expected": "x", "observed": 1, "verdict": "PASSED"}
    return Entry(**(given | {"environment": place} | fields))


def write_log(folder: Path, num_checks: int = 3, *, mark: str = "check") -> str:
    """Write a complete log with one artefact per check and return its head."""
    with EvidenceLog.open(folder) as log:
        place = log.environment(PLACE)
        for number in range(num_checks):
            (folder / f"{number}.txt").write_text(f"artefact {number}")
            log.append(entry(place, subject=f"{mark} {number}", artifacts=[Path(f"{number}.txt")]))
        return log.close(num_checks, num_checks)


def lines_of(folder: Path) -> list[bytes]:
    """Return the lines of a log."""
    return (folder / FILE_NAME).read_bytes().splitlines(keepends=True)


def records_of(folder: Path) -> list[dict[str, Any]]:
    """Return the records of a log as plain data."""
    return [json.loads(line) for line in lines_of(folder)]


def replace_os(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> None:
    """Replace functions of ``os`` as the log sees it, and nowhere else."""
    monkeypatch.setattr(evidence, "os", SimpleNamespace(**(vars(os) | functions)))


@pytest.fixture
def log_folder(tmp_path: Path) -> Path:
    """Return a folder with a complete log: environment, three checks, terminal record."""
    write_log(tmp_path / "log")
    return tmp_path / "log"


def test_complete_log_verifies(tmp_path: Path) -> None:
    """A log that nobody touched has no problems, and its head is what close returned."""
    head = write_log(tmp_path)
    report = verify(tmp_path, expected_head=head)
    assert report.ok, report.problems
    assert (report.records, report.head, report.problems) == (4, head, [])
    assert report.terminal is not None
    assert (report.terminal.planned, report.terminal.executed) == (3, 3)


def test_record_has_the_promised_fields(log_folder: Path) -> None:
    """Every record has the fields of the format, and they chain from 64 zeros."""
    first, check, *_ = records_of(log_folder)
    promised = {"seq", "time", "command", "environment", "expected", "observed", "verdict", "artifacts", "prev", "hash"}
    assert all(promised <= set(record) for record in records_of(log_folder))
    assert (first["seq"], first["prev"], check["prev"]) == (1, NO_RECORD, first["hash"])
    assert check["artifacts"][0]["path"] == "0.txt"
    assert check["time"].endswith("+00:00")


def test_environment_is_written_once(tmp_path: Path) -> None:
    """Equal fingerprints share one record; a different one gets its own."""
    with EvidenceLog.open(tmp_path) as log:
        ids = [log.environment(place) for place in (PLACE, dict(reversed(PLACE.items())), {"cpu": "b"})]
        log.close(0, 0)
    assert ids[0] == ids[1] != ids[2]
    assert [record["kind"] for record in records_of(tmp_path)] == ["environment", "environment", "terminal"]


def test_record_is_on_disk_when_append_returns(tmp_path: Path) -> None:
    """What happened is in the file at once, and an unfinished session has no terminal record."""
    with EvidenceLog.open(tmp_path) as log:
        seq = log.append(entry(log.environment(PLACE)))
        assert records_of(tmp_path)[-1]["seq"] == seq == 2
    assert verify(tmp_path).problems == [
        "there is no terminal record: the session did not end, or the end of the file was cut off"
    ]


def test_numbers_become_standard_json(tmp_path: Path) -> None:
    """NaN and infinity are texts, and scalars of numpy are numbers."""
    values = {"a": float("nan"), "b": float("-inf"), "c": np.float32(0.5), "d": 3}
    with EvidenceLog.open(tmp_path) as log:
        log.append(entry(log.environment(PLACE), observed=[float("inf")], values=values))
        log.close(1, 1)
    record = json.loads(lines_of(tmp_path)[1], parse_constant=pytest.fail)
    assert record["values"] == {"a": "nan", "b": "-inf", "c": 0.5, "d": 3}
    assert record["observed"] == ["inf"]
    assert verify(tmp_path).ok


@pytest.mark.parametrize("text", ["\x1b[31m\0\n", "\ud800", "\u00e4 \U0001f600", '"\\'])
def test_any_text_survives(tmp_path: Path, text: str) -> None:
    """Whatever a program prints or a file is called can be recorded."""
    with EvidenceLog.open(tmp_path) as log:
        log.append(entry(log.environment(PLACE), observed=text, command=["python", text]))
        log.close(1, 1)
    assert [record.observed for record in read_records(tmp_path)][1] == text
    assert verify(tmp_path).ok


def test_open_log_is_continued(tmp_path: Path) -> None:
    """A session that was not closed goes on with the same chain and knows its environments."""
    with EvidenceLog.open(tmp_path) as log:
        place = log.environment(PLACE)
    with EvidenceLog.open(tmp_path) as log:
        assert log.environment(PLACE) == place
        assert log.append(entry(place)) == 2
        log.close(1, 1)
    assert verify(tmp_path).ok


def test_log_without_checks_verifies(tmp_path: Path) -> None:
    """A session that ended before its first record is complete, and says that it executed nothing."""
    with EvidenceLog.open(tmp_path) as log:
        log.close(5, 0)
    report = verify(tmp_path)
    assert (report.ok, report.records) == (True, 0)


def test_closed_log_takes_no_more(log_folder: Path) -> None:
    """An ended session stays as it is: neither its writer nor a new one adds to it."""
    with pytest.raises(EvidenceError, match="session that has ended"):
        EvidenceLog.open(log_folder)
    with EvidenceLog.open(log_folder.parent / "other") as log:
        log.close(0, 0)
        with pytest.raises(EvidenceError, match="follows the terminal record"):
            log.close(0, 0)


def test_released_log_takes_no_more(tmp_path: Path) -> None:
    """After the with block there is no way to write."""
    with EvidenceLog.open(tmp_path) as log:
        place = log.environment(PLACE)
    with pytest.raises(EvidenceError, match="the log is closed"):
        log.append(entry(place))


@pytest.mark.parametrize("junk", [b"junk\n", b'{"seq": 1', b"\xff\xfe\n"])
def test_broken_log_is_not_continued(tmp_path: Path, junk: bytes) -> None:
    """A file whose chain is broken is refused and left as it was."""
    (tmp_path / FILE_NAME).write_bytes(junk)
    with pytest.raises(EvidenceError, match="cannot be continued: line 1"):
        EvidenceLog.open(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == junk


def test_second_writer_is_refused(tmp_path: Path) -> None:
    """One session writes one folder; the lock ends with the writer."""
    with EvidenceLog.open(tmp_path), pytest.raises(EvidenceError, match="another process is writing it"):
        EvidenceLog.open(tmp_path)
    with EvidenceLog.open(tmp_path) as log:
        log.close(0, 0)


def test_inherited_descriptor_does_not_keep_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forked worker that outlives the session holds a copy of the descriptor, and blocks no later writer."""
    copies: list[int] = []

    def open_twice(path: Path, flags: int, mode: int) -> int:
        descriptor = os.open(path, flags, mode)
        copies.append(os.dup(descriptor))
        return descriptor

    replace_os(monkeypatch, open=open_twice)
    with EvidenceLog.open(tmp_path):
        pass
    EvidenceLog.open(tmp_path).close(0, 0)
    for copy in copies:
        os.close(copy)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"environment": "000000000000"}, "matches no environment record"),
        ({"observed": "x" * MAX_LINE_BYTES}, "at most 1000000 are accepted"),
        ({"verdict": "FINE"}, "invalid enum value 'FINE'"),
        ({"tolerance": Tolerance(relative=-1.0)}, "tolerance.relative: expected float >= 0"),
        ({"tolerance": Tolerance(relative=1e9)}, "tolerance.relative: expected float <= 1"),
        ({"values": {"a": True}}, "values"),
        ({"values": {"a\x1b": 1.0}}, "expected str matching regex"),
        ({"artifacts": [Path("absent.txt")]}, "expected a file inside"),
        ({"artifacts": [Path("../outside.txt")]}, "expected a file inside"),
        ({"artifacts": [Path("/etc/hostname")]}, "expected a file inside"),
        ({"artifacts": [Path()]}, "expected a file inside"),
        ({"artifacts": [Path("a\0b")]}, "cannot be read"),
    ],
)
def test_what_could_not_be_verified_is_not_written(tmp_path: Path, fields: dict[str, Any], reason: str) -> None:
    """A record that the reader would refuse never reaches the file, and the log stays usable."""
    (tmp_path / "outside.txt").write_text("x")
    with EvidenceLog.open(tmp_path / "log") as log:
        place = log.environment(PLACE)
        with pytest.raises(EvidenceError, match=reason):
            log.append(entry(place, **fields))
        log.close(1, 0)
    assert verify(tmp_path / "log").ok


def test_full_disk_ends_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed write part of a line may be in the file, so nothing may follow it."""

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, os.strerror(28))

    with EvidenceLog.open(tmp_path) as log:
        place = log.environment(PLACE)
        replace_os(monkeypatch, write=full)
        with pytest.raises(EvidenceError, match="cannot be written: No space left"):
            log.append(entry(place))
        with pytest.raises(EvidenceError, match="the log is closed"):
            log.append(entry(place))


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may take only part of a line at a time."""
    replace_os(monkeypatch, write=lambda descriptor, data: os.write(descriptor, data[:100]))
    write_log(tmp_path)
    assert verify(tmp_path).ok


def test_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    """A folder below a file is refused with the system's own reason."""
    (tmp_path / "file").write_text("")
    with pytest.raises(EvidenceError, match=r"cannot be written: (Not a directory|File exists)"):
        EvidenceLog.open(tmp_path / "file")
