"""Does the check of a log notice whatever was changed afterwards, and survive whatever it is given?"""

from __future__ import annotations

import json
import os
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from harness.errors import EvidenceError
from harness.observe.canonical import digest
from harness.observe.chain import MAX_LINE_BYTES
from harness.observe.evidence import FILE_NAME, MAX_PROBLEMS, Entry, EvidenceLog, VerifyReport, read_records, verify

Lines = list[bytes]


def write_log(folder: Path, mark: str) -> str:
    """Write a complete log of five lines: environment, three checks with an artefact each, terminal record."""
    with EvidenceLog.open(folder) as log:
        place = log.environment({"cpu": "a"})
        for number in range(3):
            (folder / f"{number}.txt").write_text(f"{mark} {number}")
            log.append(
                Entry(
                    command=["python", "train.py"],
                    environment=place,
                    expected="x < 1",
                    observed=0.5,
                    verdict="PASSED",
                    subject=f"{mark} {number}",
                    artifacts=[Path(f"{number}.txt")],
                )
            )
        return log.close(3, 3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a complete log."""
    write_log(tmp_path / "log", "one")
    return tmp_path / "log"


def lines_of(folder: Path) -> Lines:
    """Return the lines of a log."""
    return (folder / FILE_NAME).read_bytes().splitlines(keepends=True)


def put(folder: Path, *lines: bytes) -> VerifyReport:
    """Replace the lines of a log and check it."""
    (folder / FILE_NAME).write_bytes(b"".join(lines))
    return verify(folder)


def edited(line: bytes, *, rehash: bool = False, **changes: Any) -> bytes:
    """Return a record with other fields; ``rehash`` makes its own hash right again."""
    record = json.loads(line) | changes
    if rehash:
        record["hash"] = digest({key: value for key, value in record.items() if key != "hash"})
    return json.dumps(record).encode() + b"\n"


def rewritten(lines: Lines, **changes: Any) -> Lines:
    """Return a whole new chain whose third record has other fields: what a forger with time would make."""
    records = [json.loads(line) for line in lines]
    records[2] |= changes
    for before, record in zip([None, *records], records, strict=False):
        record["prev"] = before["hash"] if before else "0" * 64
        if record["kind"] == "terminal":
            record["observed"]["head"] = record["prev"]
        record["hash"] = digest({key: value for key, value in record.items() if key != "hash"})
    return [json.dumps(record).encode() + b"\n" for record in records]


@pytest.mark.parametrize(
    "changes",
    [
        {"observed": 0.4},
        {"verdict": "FAILED"},
        {"command": ["python", "train.py", "--seed", "1"]},
        {"time": "2020-01-01T00:00:00.000000+00:00"},
        {"values": {"val_metric": 1.0}},
        {"tolerance": {"relative": 1.0, "absolute": 0.0}},
        {"artifacts": []},
        {"subject": "another"},
    ],
)
def test_edited_field_is_noticed(folder: Path, changes: dict[str, Any]) -> None:
    """An edit of any field breaks the record's own hash."""
    a, b, c, *rest = lines_of(folder)
    report = put(folder, a, b, edited(c, **changes), *rest)
    assert report.problems == ["line 3: the content does not match its hash: the record was changed"]


def test_edit_with_a_new_hash_is_noticed(folder: Path) -> None:
    """Whoever mends the hash of the edited record breaks the link of the next one."""
    a, b, c, *rest = lines_of(folder)
    report = put(folder, a, b, edited(c, rehash=True, verdict="FAILED"), *rest)
    assert report.problems == ["line 4: prev is not the hash of the record before it"]


@pytest.mark.parametrize(
    ("order", "first_problem"),
    [
        ([0, 1, 3, 4], "line 3: seq is 4 instead of 3"),
        ([1, 2, 3, 4], "line 1: seq is 2 instead of 1"),
        ([0, 2, 1, 3, 4], "line 2: seq is 3 instead of 2"),
        ([0, 1, 2, 2, 3, 4], "line 4: seq is 3 instead of 4"),
        ([0, 1, 2, 3], "there is no terminal record"),
        ([0, 1], "there is no terminal record"),
        ([0, 1, 2, 4], "line 4: seq is 5 instead of 4"),
        ([0, 1, 2, 3, 4, 1], "line 6: seq is 2 instead of 6"),
        ([0, 1, 2, 3, 4, 4], "line 6: seq is 5 instead of 6"),
        ([], "there is no terminal record"),
    ],
)
def test_removed_moved_or_repeated_line_is_noticed(folder: Path, order: list[int], first_problem: str) -> None:
    """Deleting, reordering, repeating and cutting off the tail are noticed, at the line where it happened."""
    lines = lines_of(folder)
    assert put(folder, *[lines[place] for place in order]).problems[0].startswith(first_problem)


def test_removed_record_with_new_numbers_is_noticed(folder: Path) -> None:
    """Numbering the rest anew does not mend the link."""
    a, b, _, d, e = lines_of(folder)
    report = put(folder, a, b, edited(d, rehash=True, seq=3), edited(e, rehash=True, seq=4))
    assert report.problems[0] == "line 3: prev is not the hash of the record before it"


def test_cut_tail_with_a_new_terminal_record_is_noticed(folder: Path) -> None:
    """The old terminal record does not fit a shorter log, whatever it is linked to."""
    a, b, c, _, end = lines_of(folder)
    report = put(folder, a, b, c, edited(end, rehash=True, seq=4, prev=json.loads(c)["hash"]))
    assert report.problems == ["line 4: the terminal record does not match the records before it"]


@pytest.mark.parametrize(
    "observed",
    [
        None,
        "all well",
        {"records": 4},
        {"records": 3, "head": "0" * 64, "planned": 3, "executed": 3},
        {"records": 4, "head": "0" * 64, "planned": 3, "executed": 3},
        {"records": 4, "head": "0" * 64, "planned": -1, "executed": 3},
    ],
)
def test_false_terminal_record_is_noticed(folder: Path, observed: Any) -> None:
    """A terminal record has to hold the count and the head of the very records before it."""
    *lines, end = lines_of(folder)
    report = put(folder, *lines, edited(end, rehash=True, observed=observed))
    assert "line 5: the terminal record does not match the records before it" in report.problems


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_spliced_chains_are_noticed(folder: Path, cut: int) -> None:
    """The beginning of one session does not fit the end of another, though all numbers are in order."""
    write_log(folder.parent / "other", "two")
    report = put(folder, *lines_of(folder)[:cut], *lines_of(folder.parent / "other")[cut:])
    assert f"line {cut + 1}: prev is not the hash of the record before it" in report.problems


def test_environment_record_must_match_its_id(folder: Path) -> None:
    """A machine cannot be renamed under the id that the checks carry."""
    a, *rest = lines_of(folder)
    report = put(folder, edited(a, rehash=True, observed={"cpu": "better"}), *rest)
    assert "matches no environment record" in report.problems[0]


def test_rewritten_chain_needs_the_head_from_elsewhere(folder: Path) -> None:
    """A whole new chain is consistent by itself; only a head that was kept elsewhere gives it away."""
    head = verify(folder).head
    assert put(folder, *rewritten(lines_of(folder), observed=0.1)).ok
    assert "this is another chain" in verify(folder, expected_head=head).problems[0]


def test_new_terminal_counts_need_the_head_from_elsewhere(folder: Path) -> None:
    """The head covers the terminal record too: its counts cannot be changed under the same head."""
    head = verify(folder).head
    *lines, end = lines_of(folder)
    observed = json.loads(end)["observed"] | {"planned": 9, "executed": 9}
    assert put(folder, *lines, edited(end, rehash=True, observed=observed)).ok
    assert not verify(folder, expected_head=head).ok


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"\n", "no JSON"),
        (b"{}\n", "missing required field"),
        (b"null\n", "expected object, got null"),
        (b"[1, 2]\n", "expected object, got array"),
        (b"\x00\x01\xff\xfe\n", "not UTF-8 text"),
        (b"\xef\xbb\xbf{}\n", "no JSON"),
        (b"[" * 100_000 + b"\n", "nested too deeply"),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"\n", "nested too deeply"),
        (b'{"seq": NaN}\n', "not standard JSON"),
        (b'{"seq": 1, "seq": 2}\n', "a key is given twice"),
        (b'{"seq": ' + b"9" * 5_000 + b"}\n", "not a record"),
        (b"x" * MAX_LINE_BYTES + b"\n", "longer than 1000000 bytes"),
        (b'{"seq"', "cut off"),
    ],
)
def test_garbage_is_a_sentence(folder: Path, line: bytes, reason: str) -> None:
    """Whatever a line holds, it is a problem with its number; reading the records stops there with the same words."""
    report = put(folder, *lines_of(folder), line)
    assert any("line 6" in problem and reason in problem for problem in report.problems)
    with pytest.raises(EvidenceError, match=f"line 6.*{reason}"):
        list(read_records(folder))


@pytest.mark.parametrize(
    "changes",
    [
        {"seq": "1"},
        {"seq": 10**30},
        {"time": "yesterday"},
        {"time": "2020-01-01T00:00:00"},
        {"command": "rm -rf /"},
        {"verdict": "GREAT"},
        {"kind": "secret"},
        {"values": {"a": "high"}},
        {"values": {"\x1b[2J": 1.0}},
        {"tolerance": {"relative": 1e9}},
        {"artifacts": [{"path": "0.txt", "sha256": "short"}]},
        {"prev": None},
        {"\x1b[2J": 1},
    ],
)
def test_wrong_type_is_a_printable_sentence(folder: Path, changes: dict[str, Any]) -> None:
    """A value of the wrong type is refused, in words that cannot steer the terminal that shows them."""
    a, b, c, *rest = lines_of(folder)
    problems = put(folder, a, b, edited(c, rehash=True, **changes), *rest).problems
    assert problems[0].startswith("line 3: ")
    assert all(problem.isprintable() for problem in problems)


def test_number_beyond_double_is_a_sentence(folder: Path) -> None:
    """A number that reads as infinity has no standard form and is refused."""
    a, b, c, *rest = lines_of(folder)
    report = put(folder, a, b, c.replace(b'"observed": 0.5', b'"observed": 1e999'), *rest)
    assert report.problems[0].startswith("line 3: not a record")


def test_truncation_anywhere_is_noticed(folder: Path) -> None:
    """However many bytes are cut off the end, down to none, the log is not complete."""
    data = (folder / FILE_NAME).read_bytes()
    for size in random.Random(0).sample(range(len(data)), 40):
        assert not put(folder, data[:size]).ok


def test_any_changed_byte_is_noticed(folder: Path) -> None:
    """A change of any single byte is noticed, unless the JSON still says the same."""
    data = (folder / FILE_NAME).read_bytes()
    chance = random.Random(0)
    for place in chance.sample(range(len(data)), 200):
        changed = data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]
        report = put(folder, changed)
        assert not report.ok or [json.loads(line) for line in changed.splitlines()] == [
            json.loads(line) for line in data.splitlines()
        ]


@pytest.mark.parametrize("kind", ["missing file", "missing folder", "folder", "pipe", "file as folder"])
def test_what_is_no_file_is_a_sentence(tmp_path: Path, kind: str) -> None:
    """Without an evidence file there is nothing to check, and a pipe is not waited for."""
    target = {"missing folder": tmp_path / "absent", "file as folder": tmp_path / "file"}.get(kind, tmp_path)
    (tmp_path / "file").write_text("")
    if kind == "folder":
        (tmp_path / FILE_NAME).mkdir()
    if kind == "pipe":
        os.mkfifo(tmp_path / FILE_NAME)
    assert verify(target).problems == [f"{target / FILE_NAME}: there is no evidence file"]


def test_many_problems_are_cut_short(folder: Path) -> None:
    """A file of garbage yields a screenful of problems, not a list as long as the file."""
    report = put(folder, b"garbage\n" * 10_000)
    assert len(report.problems) == MAX_PROBLEMS + 1
    assert report.problems[-1].endswith("stopped here, there may be more")


def test_endless_line_does_not_fill_the_memory(folder: Path) -> None:
    """A line of 200 MB is given up after its first megabyte."""
    with (folder / FILE_NAME).open("ab") as file:
        file.truncate(200_000_000)
    tracemalloc.start()
    report = verify(folder)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "line 6 is longer than" in report.problems[0]
    assert peak_bytes < 20 * MAX_LINE_BYTES
