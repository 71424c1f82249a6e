"""What is left of a session that ends too early? Everything that it had found, and no claim of completeness."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from harness.observe.evidence import verify
from harness.plugin.ledger import NOT_REACHED
from tests.plugin.folders import Exam, stop, wait_for

HANGS = """
def test_before(judge):
    judge(lambda: judgement("PASSED"), "")

def test_hangs(judge):
    pathlib.Path("reached").touch()
    time.sleep(100)

def test_after(judge):
    judge(lambda: judgement("PASSED"), "")
"""

DIES = """
@pytest.mark.parametrize("number", range(8))
def test_lives(number, judge):
    judge(lambda: judgement("PASSED"), "")

def test_dies(judge):
    os.kill(os.getpid(), signal.SIGKILL)
"""

NO_END = "there is no terminal record: the session did not end, or the end of the file was cut off"

Write = Callable[..., Exam]


def test_exit_inside_a_test_is_noticed(exam: Write) -> None:
    """os._exit(0) ends pytest with status 0; that nothing is complete shows in the evidence alone."""
    ended = exam(HANGS.replace("time.sleep(100)", "os._exit(0)")).run()
    assert ended.status == 0
    assert verify(ended.folder).problems == [NO_END]
    assert ended.verdicts == {"test_before": "PASSED"}
    assert not (ended.folder / "report.html").exists()


def test_kill_leaves_a_readable_beginning(exam: Write) -> None:
    """What was found before kill -9 can be read, and nothing claims that it is all."""
    folder = exam(HANGS)
    process = folder.start()
    wait_for((folder.root / "reached").exists)
    stop(process)
    ended = folder.ended(process)
    assert ended.status == -signal.SIGKILL
    assert verify(ended.folder).problems == [NO_END]
    assert ended.verdicts == {"test_before": "PASSED"}


@pytest.mark.parametrize("words", [[], ["-n", "1"]])
def test_interrupt_keeps_what_was_found(exam: Write, words: list[str]) -> None:
    """Ctrl-C closes the evidence, writes the report, and what was not reached says so."""
    folder = exam(HANGS)
    process = folder.start(*words)
    wait_for((folder.root / "reached").exists)
    os.kill(process.pid, signal.SIGINT)
    ended = folder.ended(process)
    assert ended.status == 2
    assert verify(ended.folder).problems == []
    assert ended.verdicts == {"test_before": "PASSED", "test_hangs": "SKIPPED", "test_after": "SKIPPED"}
    assert ended.rows["test_hangs"]["reason"] == ended.rows["test_after"]["reason"] == NOT_REACHED
    assert (ended.results["planned"], ended.results["executed"]) == (3, 1)


def test_crash_of_a_worker_loses_nothing(exam: Write) -> None:
    """The check under which a worker died is an ERROR; another worker takes over the rest."""
    ended = exam(DIES).run("-n", "2")
    assert ended.status == 1
    assert ended.outcomes == {f"test_lives[{n}]": "PASSED" for n in range(8)} | {"test_dies": "ERROR"}
    assert "crashed while running" in ended.rows["test_dies"]["reason"]
    assert ended.verdicts == ended.outcomes
    assert verify(ended.folder).problems == []


def test_last_worker_dies(exam: Write) -> None:
    """When no worker is left, the checks that nobody ran are counted all the same."""
    ended = exam(HANGS.replace("time.sleep(100)", "os._exit(0)")).run("-n", "1", "--max-worker-restart", "0")
    assert ended.status != 0
    assert ended.outcomes == {"test_before": "PASSED", "test_hangs": "ERROR", "test_after": "SKIPPED"}
    assert verify(ended.folder).problems == []


def test_folder_of_an_ended_session_is_refused(exam: Write) -> None:
    """A second session into the same folder is refused before anything runs, and the first one stays as it was."""
    folder = exam("def test_one(judge):\n    judge(lambda: judgement('PASSED'), '')")
    first = folder.run()
    before = (first.folder / "evidence.jsonl").read_bytes()
    second = folder.run()
    assert (first.status, second.status) == (0, 4)
    assert second.err.strip() == (
        f"ERROR: --exam-out {first.folder}: it already holds the evidence of a session; name another folder"
    )
    assert (first.folder / "evidence.jsonl").read_bytes() == before


def test_folder_that_cannot_be_made(exam: Write) -> None:
    """A folder below a file is one sentence, not a traceback."""
    ended = exam("def test_one(): pass").run(out="pytest.ini/below")
    assert ended.status == 4
    assert ended.err.strip() == f"ERROR: --exam-out {ended.folder}: cannot be made: Not a directory"


def test_default_folder_is_new_each_time(exam: Write) -> None:
    """Without --exam-out each session has a folder of its own below reports/."""
    folder = exam("def test_one(judge):\n    judge(lambda: judgement('PASSED'), '')")
    assert [folder.run(out="").status for _ in range(2)] == [0, 0]
    assert len(list((folder.root / "reports").glob("*/report.html"))) == 2
