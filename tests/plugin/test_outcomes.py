"""Does every check end in exactly one outcome, the same one in every file and in every mode?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.observe.evidence import verify
from harness.report.outcomes import EXECUTED, MEANING
from tests.plugin.conftest import MODES
from tests.plugin.folders import Ended, Exam
from tests.plugin.sample_outcomes import CODE, EXPECTED
from tests.report.tree import Element, parse

PYTEST_SAYS = {
    "PASSED": [],
    "FAILED": ["failure"],
    "ERROR": ["failure", "error"],
    "TIMEOUT": ["failure"],
}
"""Outcome -> the elements of junit.xml that may stand for it; every other outcome is a skip there."""


@pytest.fixture(scope="module", params=MODES)
def ended(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A session in which every outcome occurs."""
    exam = Exam.of(tmp_path_factory.mktemp(request.param) / "project", CODE)
    return exam.run(*MODES[request.param])


def test_results_have_each_outcome(ended: Ended) -> None:
    """Each check has one row, in the order of selection, and the session fails."""
    assert list(ended.outcomes.items()) == list(EXPECTED.items())
    assert set(EXPECTED.values()) == set(MEANING)
    assert ended.status == 1


def test_evidence_has_each_outcome(ended: Ended) -> None:
    """Each check has one record, and a row names the record that is behind it."""
    assert ended.verdicts == EXPECTED
    checks = [record for record in ended.records if record["kind"] == "check"]
    assert len(checks) == len(EXPECTED)
    assert all(record["command"] == ["python", "-m", "pytest", record["subject"]] for record in checks)
    subjects = {record["seq"]: record.get("subject") for record in ended.records}
    assert all([subjects[seq] for seq in row["evidence"]] == [row["id"]] for row in ended.results["checks"])


def test_evidence_is_intact(ended: Ended) -> None:
    """The chain holds, and its terminal record says how much was planned and executed."""
    report = verify(ended.folder, ended.results["evidence_head"])
    executed = sum(outcome in EXECUTED for outcome in EXPECTED.values())
    assert report.problems == []
    assert report.terminal is not None
    assert (report.terminal.planned, report.terminal.executed) == (len(EXPECTED), executed)


def test_junit_has_each_outcome(ended: Ended) -> None:
    """junit.xml knows three words: each case names ours as a property, and skips what did not pass or fail."""
    cases = ended.junit
    named = {name: [p.attrib["value"] for p in case.iter("property")] for name, case in cases.items()}
    assert named == {name: [outcome] for name, outcome in EXPECTED.items()}
    for name, outcome in EXPECTED.items():
        told = [child.tag for child in cases[name] if child.tag in {"failure", "error", "skipped"}]
        if name != "test_keeps_its_judgement":
            assert told == [] if outcome == "PASSED" else told[0] in PYTEST_SAYS.get(outcome, ["skipped"])


def test_page_has_each_outcome(ended: Ended) -> None:
    """The page shows each check with its outcome and reason."""
    rows = [row for row in parse(ended.page).section("scenarios").all("tr") if row.all("td")]
    assert sorted(cell(row, "Outcome") for row in rows) == sorted(EXPECTED.values())
    assert {cell(row, "Reason") for row in rows} >= {"by symptom", "not today", "ValueError: our own bug"}


def test_headline_counts(ended: Ended) -> None:
    """The terminal says how much was executed, and the path of the report last."""
    executed = sum(outcome in EXECUTED for outcome in EXPECTED.values())
    assert f"{executed} of {len(EXPECTED)} checks executed: 2 BLOCKED, 4 ERROR, 4 FAILED" in ended.out
    assert "0 of 1 GPU checks executed" in ended.out
    assert ended.out.splitlines()[-1] == f"report: {ended.folder / 'report.html'}"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("test_judged[FAILED]", "<script>alert(1)</script> & <b>because</b> FAILED"),
        ("test_plain_assertion", "AssertionError: <script>alert(1)</script> & <b>because</b>"),
        ("test_plain_pass", ""),
        ("test_plain_skip", "not today"),
        ("test_broken_before", "OSError: no such device"),
        ("test_broken_after", "OSError: cannot clean up"),
        ("test_hangs", "Failed: Timeout (>0.2s) from pytest-timeout."),
        ("test_needs_a_gpu", "no GPU is visible here; gpu-exam doctor says why"),
    ],
)
def test_reasons(ended: Ended, name: str, reason: str) -> None:
    """A row says why, in one line."""
    assert ended.rows[name]["reason"] == reason


def test_numbers_that_are_none(ended: Ended) -> None:
    """NaN and infinity reach the files as valid JSON, and the page as words."""
    row = ended.rows["test_not_a_number"]
    assert (row["observed"], row["low"], row["high"]) == ("not finite", 0.0, None)
    (shown,) = [r for r in parse(ended.page).all("tr") if "Has a number" in r.text]
    assert cell(shown, "Observed") == "not finite"


def test_gate_ran_once(ended: Ended) -> None:
    """The controller asks the integrity gate; workers never do."""
    assert len((ended.folder / "gates.txt").read_text().split()) == 1


def test_markup_is_escaped(ended: Ended) -> None:
    """What somebody wrote is text on the page, and nothing else."""
    page = parse(ended.page)
    assert page.all("script") == []
    assert any("<script>alert(1)</script> & <b>because</b>" in row.text for row in page.all("tr"))


def test_serial_and_parallel_agree(tmp_path: Path) -> None:
    """The same rows come out of one process and of two, apart from times and record numbers."""
    exam = Exam.of(tmp_path / "project", CODE)
    serial, parallel = (same(exam.run(*words, out=f"out{len(words)}")) for words in ([], ["-n", "2"]))
    assert serial == parallel


def same(ended: Ended) -> list[dict[str, Any]]:
    """Return the rows without what differs from session to session."""
    return [row | {"seconds": 0, "evidence": []} for row in ended.results["checks"]]


def cell(row: Element, label: str) -> str:
    """Return the text of one cell."""
    return next(e.text for e in row.all("td") if e.attributes["data-label"] == label)
