"""Does the integrity gate stop a session before anything is measured, and stay out of every other one?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.observe.evidence import verify
from tests.plugin.conftest import MODES
from tests.plugin.folders import REAL_GATE, Exam
from tests.report.tree import parse

CODE = """
pathlib.Path("collected").touch()

def test_one(judge):
    judge(lambda: judgement("PASSED"), "")
"""

BAD = {"CUDA_LAUNCH_BLOCKING": "1"}
OBSERVED = "CUDA_LAUNCH_BLOCKING=1: every kernel launch waits for the kernel"

Write = Callable[..., Exam]


@pytest.mark.parametrize("mode", ["serial", "parallel"])
def test_failing_gate_stops_the_session(exam: Write, mode: str) -> None:
    """Nothing is collected or run, the exit status is 3, and the remedy can be read."""
    folder = exam(CODE, REAL_GATE)
    ended = folder.run(*MODES[mode], **BAD)
    assert ended.status == 3
    assert not (folder.root / "collected").exists()
    first, told, remedy = ended.err.splitlines()
    assert first == "Exit: the integrity gate failed, nothing was measured"
    assert told == f"  environment variables: {OBSERVED} (expected: nothing that distorts timing or numerics)"
    assert remedy == "    remedy: unset CUDA_LAUNCH_BLOCKING"
    assert ended.out.splitlines()[-1] == f"report: {ended.folder / 'report.html'}"


def test_failing_gate_is_in_the_report(exam: Write) -> None:
    """The report opens with what stopped the session, and has the remedy beside the check."""
    ended = exam(CODE, REAL_GATE).run(**BAD)
    page = parse(ended.page)
    assert page.all("h1")[0].text.startswith("The integrity gate stopped the session: 0 of 0 checks executed.")
    assert "unset CUDA_LAUNCH_BLOCKING" in page.section("gate").text
    assert ended.results["gate"]["outcome"] == "FAILED"
    assert (ended.results["planned"], ended.results["executed"]) == (0, 0)
    assert verify(ended.folder).problems == []


@pytest.mark.parametrize(
    "words", [["--collect-only"], ["--co", "-q"], ["--fixtures"], ["--setup-plan"], ["--markers"], ["--help"]]
)
def test_looking_needs_no_gate(exam: Write, words: list[str]) -> None:
    """A session that runs no test asks no gate, fails for nothing, and leaves no folder behind."""
    ended = exam(CODE).run(*words, **BAD)
    assert ended.status == 0
    assert not ended.folder.exists()
    assert "gpu-exam" not in ended.out.splitlines()[-1]


@pytest.mark.parametrize("given", ["tests/", "tests/test_other.py", "tests/test_other.py::test_two"])
def test_other_tests_are_no_exam(exam: Write, given: str) -> None:
    """A session over other tests stays as pytest made it."""
    folder = exam(CODE)
    (folder.root / "tests").mkdir()
    (folder.root / "tests" / "test_other.py").write_text("def test_two(): pass")
    ended = folder.run(given=given, **BAD)
    assert ended.status == 0
    assert not ended.folder.exists()
    assert "checks executed" not in ended.out


@pytest.mark.parametrize("given", ["scenarios", "scenarios/test_sample.py::test_one", ".", "./scenarios/../scenarios"])
def test_every_way_to_name_scenarios_is_an_exam(exam: Write, given: str) -> None:
    """A folder, a file, one test, and the whole project are all exam sessions."""
    ended = exam(CODE).run(given=given)
    assert ended.status == 0
    assert ended.outcomes == {"test_one": "PASSED"}


def test_session_without_a_terminal(exam: Write) -> None:
    """Without pytest's terminal reporter there is nobody to tell, and everything is written all the same."""
    ended = exam(CODE).run("-p", "no:terminal")
    assert (ended.status, ended.err) == (0, "")
    assert ended.outcomes == {"test_one": "PASSED"}
