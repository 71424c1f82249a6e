"""Is exactly what somebody judged harmless left out of the count, and is a line that says nothing refused?"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.diagnose.diagnosis import diagnose, merged
from harness.diagnose.finding import Finding
from harness.diagnose.known import Known, parted, read_known
from harness.diagnose.observations import Observations
from harness.errors import UsageError
from tests.diagnose.records import run_of

CAUSES = ["clip_before_unscale", "double_unscale"]


def finding(place: str, cause: str = "clip_before_unscale") -> Finding:
    """Return a finding at a place."""
    return Finding(category="precision", cause=cause, confidence=0.9, evidence=[], confirm="", action="", place=place)


def read(folder: Path, text: str) -> list[Known]:
    """Return what a file with this text says."""
    path = folder / "known.txt"
    path.write_text(text, encoding="utf-8")
    return read_known(path, CAUSES)


@pytest.mark.parametrize(
    ("line", "covered"),
    [
        ("clip_before_unscale: reason", ["train.py:4", "/job/train.py:5", "other.py:4", "mytrain.py:4", ""]),
        ("clip_before_unscale at train.py: reason: with a colon", ["train.py:4", "/job/train.py:5"]),
        ("clip_before_unscale at train.py:4: reason", ["train.py:4"]),
        ("double_unscale: reason", []),
    ],
)
def test_what_a_line_covers(tmp_path: Path, line: str, covered: list[str]) -> None:
    """A cause everywhere, in a file, or at one line of it."""
    (known,) = read(tmp_path, f"# a comment\n\n  {line}  \n")
    places = ["train.py:4", "/job/train.py:5", "other.py:4", "mytrain.py:4", ""]
    assert [place for place in places if known.covers(finding(place))] == covered


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("clip_before_unscale", "known.txt:1: got 'clip_before_unscale', accepted is CAUSE: REASON"),
        ("clip_before_unscale:", "accepted is CAUSE: REASON"),
        ("\nclip_before_unscal: no\n", "known.txt:2: unknown cause 'clip_before_unscal' (did you mean"),
    ],
)
def test_a_line_that_says_nothing_is_refused(tmp_path: Path, text: str, told: str) -> None:
    """Without a reason, or of a cause that there is not; the line is named."""
    with pytest.raises(UsageError) as raised:
        read(tmp_path, text)
    assert told in str(raised.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """Absent, a folder, or not text."""
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for name in ("absent", ".", "bytes"):
        with pytest.raises(UsageError, match=r"--known .* cannot be read: .*an empty file is accepted"):
            read_known(tmp_path / name, CAUSES)


def test_findings_are_parted() -> None:
    """New ones, then known ones, each in its order."""
    first, second, third = finding("a.py:1"), finding("b.py:1"), finding("a.py:2")
    assert parted([first, second, third], [Known("clip_before_unscale", "a.py", "why")]) == ([second], [first, third])


def test_a_run_with_known_findings_alone_is_healthy() -> None:
    """The status counts what is new; what is known stays in the diagnosis, also when diagnoses are merged."""
    fp16 = {"train_formats": "float16", "scaled_attempts": 100, "clips_before_unscale_share": 1.0}
    observations = Observations(run_of(fp16))
    known = [Known("clip_before_unscale", "", "only measures the norm")]
    alone, lenient = diagnose(observations), diagnose(observations, known)
    assert (alone.status, lenient.status) == ("diagnosed", "healthy")
    assert lenient.known == alone.findings
    both = merged([lenient, alone])
    assert (both.status, both.known, both.findings) == ("diagnosed", alone.findings, alone.findings)
