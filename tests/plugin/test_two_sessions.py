"""Do two sessions on one host leave each other alone?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.devices.leases import FOLDER_VARIABLE, lease
from harness.observe.evidence import verify
from tests.plugin.folders import REAL_GATE, Exam, wait_for

CODE = """
def test_meets_the_other(judge):
    pathlib.Path(f"here-{os.getpid()}").touch()
    while len(list(pathlib.Path().glob("here-*"))) < 2:
        time.sleep(0.02)
    judge(lambda: judgement("PASSED"), "")
"""

Write = Callable[..., Exam]


def test_two_at_once(exam: Write) -> None:
    """Two sessions run at the same time, each with its own evidence."""
    folder = exam(CODE)
    processes = {name: folder.start(out=name) for name in ("one", "two")}
    ended = [folder.ended(process, name) for name, process in processes.items()]
    assert [each.status for each in ended] == [0, 0]
    assert all(verify(each.folder).ok and each.verdicts == {"test_meets_the_other": "PASSED"} for each in ended)


def test_two_into_one_folder(exam: Write) -> None:
    """Of two sessions that start into one folder, one is refused in one sentence and the other is complete."""
    folder = exam(CODE.replace("< 2", "< 1"))
    processes = [folder.start(), folder.start()]
    ended = sorted((folder.ended(process) for process in processes), key=lambda each: each.status)
    assert [each.status for each in ended] == [0, 4]
    assert ended[1].err.startswith("ERROR: ")
    assert len(ended[1].err.strip().splitlines()) == 1
    assert verify(ended[0].folder).problems == []


def test_gate_waits_for_a_measurement(exam: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another session measures on the cores, the self-test of the gate does not disturb it."""
    folder = exam(CODE.replace("< 2", "< 1"), REAL_GATE)
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder.root / "leases"))
    with lease(1, "cpu", 0):
        process = folder.start()
        wait_for((folder.root / "out").exists)
        with pytest.raises(Exception, match="timed out"):
            process.wait(1)
        assert not list(folder.root.glob("here-*"))
    assert folder.ended(process).status == 0
