"""Does a session say how much of what was selected it executed, and never call nothing a success?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.observe.evidence import verify
from harness.plugin.ledger import NOT_REACHED
from tests.plugin.conftest import MODES
from tests.plugin.folders import Ended, Exam

MIXED = """
@pytest.mark.gpu
@pytest.mark.parametrize("number", range(3))
def test_on_a_gpu(number, judge):
    judge(lambda: judgement("PASSED"), "")

def test_on_the_host(judge):
    judge(lambda: judgement("PASSED"), "")
"""

ONE_FAILS = """
@pytest.mark.parametrize("number", range(6))
def test_number(number, judge):
    judge(lambda: judgement("FAILED" if number == 1 else "PASSED"), "")
"""

Write = Callable[..., Exam]


def counts(ended: Ended) -> tuple[int, int, int, int]:
    """Return planned, executed, and both for a GPU."""
    found = ended.results
    return found["planned"], found["executed"], found["gpu_planned"], found["gpu_executed"]


@pytest.mark.parametrize("mode", ["serial", "parallel"])
@pytest.mark.parametrize(
    ("words", "status", "expected"),
    [
        ([], 0, (4, 1, 3, 0)),
        (["-m", "gpu"], 1, (3, 0, 3, 0)),
        (["-m", "gpu", "--allow-no-gpu"], 0, (3, 0, 3, 0)),
        (["-m", "not gpu"], 0, (1, 1, 0, 0)),
    ],
)
def test_zero_executed_is_no_success(
    exam: Write, mode: str, words: list[str], status: int, expected: tuple[int, int, int, int]
) -> None:
    """GPU checks without a GPU fail the session when there is nothing else, unless the user accepts it."""
    ended = exam(MIXED).run(*words, *MODES[mode])
    assert (ended.status, counts(ended)) == (status, expected)
    assert f"0 of {expected[2]} GPU checks executed" in ended.out or not expected[2]
    assert verify(ended.folder).ok


@pytest.mark.parametrize("words", [["--allow-no-gpu"], []])
def test_headline_of_nothing(exam: Write, words: list[str]) -> None:
    """The terminal never contradicts the exit status."""
    ended = exam(MIXED).run("-m", "gpu", *words)
    assert ("zero executed checks is not a success" in ended.out) == (ended.status != 0)
    assert ("--allow-no-gpu accepts this" in ended.out) == (ended.status == 0)


@pytest.mark.parametrize("mode", ["serial", "parallel"])
@pytest.mark.parametrize("words", [["-k", "nothing"], ["-k", "nothing", "--allow-no-gpu"]])
def test_nothing_selected(exam: Write, mode: str, words: list[str]) -> None:
    """A selection that matches nothing is no success, and there is a report that says so."""
    ended = exam(MIXED).run(*words, *MODES[mode])
    assert ended.status == 5
    assert counts(ended) == (0, 0, 0, 0)
    assert verify(ended.folder).ok


def test_everything_skipped(exam: Write) -> None:
    """A session in which every check skips itself is no success either."""
    ended = exam('def test_later():\n    pytest.skip("later")').run("--allow-no-gpu")
    assert (ended.status, counts(ended)) == (1, (1, 0, 0, 0))


def test_gpu_checks_of_a_cpu_session(exam: Write) -> None:
    """--device cpu leaves out what needs a GPU, and says that the session was asked to."""
    ended = exam(MIXED).run("--device", "cpu")
    assert ended.rows["test_on_a_gpu[0]"]["reason"] == "needs a GPU, and this session has --device cpu"


@pytest.mark.parametrize(("words", "executed"), [(["-x"], 2), (["--maxfail", "1"], 2), (["--maxfail", "2"], 6)])
def test_planned_is_what_was_selected(exam: Write, words: list[str], executed: int) -> None:
    """A session that stops at a failure still counts what it did not reach, and each of these says so."""
    ended = exam(ONE_FAILS).run(*words)
    assert ended.status == 1
    assert counts(ended)[:2] == (6, executed)
    assert list(ended.outcomes.values()).count("SKIPPED") == 6 - executed
    assert {row["reason"] for row in ended.rows.values() if row["outcome"] == "SKIPPED"} <= {NOT_REACHED}


@pytest.mark.parametrize("words", [["-x"], ["--maxfail", "1"]])
def test_planned_is_known_to_the_controller(exam: Write, words: list[str]) -> None:
    """Under xdist the controller collects nothing itself, and counts all the same."""
    slow = ONE_FAILS.replace("range(6)", "range(40)") + "    time.sleep(0.05)\n"
    ended = exam(slow).run(*words, "-n", "2")
    planned, executed, *_ = counts(ended)
    assert planned == 40
    assert 2 <= executed < 40
    assert [row["id"].partition("[")[2] for row in ended.results["checks"]] == [f"{n}]" for n in range(40)]
    assert verify(ended.folder).ok


def test_deselected_checks_are_not_planned(exam: Write) -> None:
    """What -k leaves out was not planned."""
    ended = exam(ONE_FAILS).run("-k", "number and not 1 and not 2")
    assert counts(ended)[:2] == (4, 4)


def test_collection_error(exam: Write) -> None:
    """A module that cannot be imported is no success, and the session still leaves a report."""
    ended = exam("import nothing_of_this_name").run()
    assert ended.status == 2
    assert counts(ended) == (0, 0, 0, 0)
    assert verify(ended.folder).ok
