"""A spec becomes a run in fresh processes, started in a moment, and nothing of them is left behind."""

from __future__ import annotations

import os
import signal
import statistics
import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from harness import launch
from harness.config import changed
from harness.errors import LaunchError, UsageError
from harness.fork_client import Server
from harness.launch import run
from harness.runs import read_run
from tests.running import EVERY_STEP, TINY, Launcher, finished, gone, losses, process, train_words

MAKE = """
def make():
    return parts()
"""

STARTS_CHILD = "open({!r}, 'w').write(str(subprocess.Popen(['sleep', '600']).pid))\n"

HANG = """
class Model(nn.Linear):
    def forward(self, inputs):
        if self.training:
            child = subprocess.Popen(["sleep", "600"])
            open(os.environ["HANGS"], "w").write(f"{os.getpid()} {os.getppid()} {child.pid}")
            time.sleep(600)
        return super().forward(inputs)

def make():
    return parts(model=Model(8, 2))
"""

LAUNCH = """
import sys
from pathlib import Path
from harness.config import RunOptions, changed
from harness.launch import run
from tests.running import TINY
run(changed(TINY, {"workload": sys.argv[1]}), Path(sys.argv[2]), RunOptions())
"""


def written_pids(path: Path) -> list[int]:
    """Wait for the process ids that a hanging workload writes: the rank's, its server's and its child's."""
    for _ in range(3000):
        if path.exists() and len(path.read_text().split()) == 3:
            return [int(word) for word in path.read_text().split()]
        time.sleep(0.02)
    raise TimeoutError(path)


def test_launched_run_equals_itself(launched: Launcher) -> None:
    """Equal specs are equal runs, bit by bit, from one warm server."""
    assert losses(launched()) == losses(launched())
    assert len(losses(launched(max_steps=3))) == 3


def test_runs_share_nothing(launched: Launcher) -> None:
    """What one run leaves in its process is not there in the next one."""
    mark = "torch.set_num_threads(2)\nos.environ['LEFT'] = torch.left = '1'\n"
    assert launched.workload(mark + MAKE).state == "completed"
    check = "assert 'LEFT' not in os.environ\nassert not hasattr(torch, 'left')\n"
    assert launched.workload(check + MAKE).state == "completed"


def test_rank_has_the_callers_environment_and_folder(
    launched: Launcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As if the command had been typed here and now, not where and when the server started."""
    monkeypatch.setenv("TOLD_LATER", "yes")
    monkeypatch.chdir(tmp_path)
    check = f"assert os.environ['TOLD_LATER'] == 'yes'\nassert os.getcwd() == {str(tmp_path)!r}\n" + MAKE
    made = launched.workload(check)
    assert made.state == "completed", made.message
    monkeypatch.delenv("TOLD_LATER")
    assert "KeyError" in launched.workload(check).message


def test_environment_of_one_run_is_set_in_its_ranks(launched: Launcher) -> None:
    """Leased devices reach the ranks this way."""
    name = launched.written("assert os.environ['LEASED'] == '3'\n" + MAKE)
    assert (
        run(changed(TINY, {"workload": name}), launched.next_folder(), EVERY_STEP, environment={"LEASED": "3"}).state
        == "completed"
    )


def test_relative_workload_is_found_from_here(launched: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path means the caller's folder."""
    path = Path(launched.written(MAKE).rpartition(":")[0])
    monkeypatch.chdir(path.parent)
    assert launched(workload="mine.py:make").state == "completed"


def test_folder_that_holds_a_run_is_refused(tmp_path: Path) -> None:
    """The old run's records would pass for the new one's."""
    run(TINY, tmp_path / "run", EVERY_STEP)
    with pytest.raises(UsageError, match="it already holds a run"):
        run(TINY, tmp_path / "run", EVERY_STEP)


@pytest.mark.parametrize(("place", "said"), [("file/run", "Not a directory"), ("/proc/run", "No such file")])
def test_folder_that_cannot_be_made_is_refused(tmp_path: Path, place: str, said: str) -> None:
    """One sentence, before any process starts."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=f"cannot be written: {said}"):
        run(TINY, tmp_path / place, EVERY_STEP)


def test_output_of_each_rank_is_kept(launched: Launcher) -> None:
    """Rank 0 prints the lines; what the others say is beside it."""
    made = launched(devices=2)
    assert "step=12 loss=" in (made.folder / "rank0.log").read_text()
    assert (made.folder / "rank1.log").read_text() == ""


def test_started_children_are_killed_after_a_normal_end(launched: Launcher, tmp_path: Path) -> None:
    """What a workload leaves running does not outlive its run."""
    note = tmp_path / "pid"
    assert launched.workload(STARTS_CHILD.format(str(note)) + MAKE).state == "completed"
    assert gone(int(note.read_text()))


def test_server_that_died_is_an_ended_run_and_is_replaced(launched: Launcher, tmp_path: Path) -> None:
    """The rank of a dead server is killed with what it started, and the next run starts a new server."""
    note = tmp_path / "hangs"
    code = f"os.environ['HANGS'] = {str(note)!r}\n" + HANG
    server = launch.server()
    killer = Thread(target=lambda: os.kill(written_pids(note)[1], signal.SIGKILL))
    killer.start()
    made = launched.workload(code)
    killer.join()
    assert (made.state, made.message.partition(";")[0]) == ("died", "rank 0 died: the fork server died")
    assert all(gone(pid) for pid in written_pids(note))
    with pytest.raises(LaunchError, match="the fork server is gone"):
        server.request({})
    assert launched().state == "completed"


def test_interrupt_while_the_ranks_start_leaves_no_process(launched: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may come after a process was started and before anybody has noted its id."""
    receive = Server.receive
    started: list[int] = []

    def interrupted(self: Server, key: str, limit_s: float) -> Any:
        if started:
            return receive(self, key, limit_s)
        answer = receive(self, key, limit_s)
        self.waiting[key].put(answer)
        started.append(answer["pid"])
        raise KeyboardInterrupt

    name = launched.written("def make():\n    time.sleep(600)\n")
    launch.server()
    monkeypatch.setattr(Server, "receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        launched(workload=name)
    assert gone(started[0])


@pytest.mark.parametrize(
    ("sent", "to_server"), [(signal.SIGINT, False), (signal.SIGKILL, False), (signal.SIGKILL, True)]
)
def test_launcher_that_is_stopped_leaves_no_process(
    launched: Launcher, tmp_path: Path, sent: signal.Signals, to_server: bool
) -> None:
    """Ctrl-C, or the kernel's killer, which may take the server too: the rank ends, and its records are readable."""
    note = tmp_path / "hangs"
    caller = process("-c", LAUNCH, launched.written(HANG), str(tmp_path / "run"), environment={"HANGS": str(note)})
    pids = written_pids(note)
    caller.send_signal(sent)
    if to_server:
        os.kill(pids[1], sent)
    caller.communicate(timeout=30)
    if to_server:  # nobody is left who could kill what the rank had started
        os.kill(pids.pop(), sent)
    assert all(gone(pid) for pid in pids)
    left = read_run(tmp_path / "run")
    assert left.start["num_parameters"] == 18
    assert left.state == ("interrupted" if sent == signal.SIGINT else "died")


@pytest.mark.slow
def test_one_more_run_costs_a_fraction_of_a_new_process(launched: Launcher, tmp_path: Path) -> None:
    """The warm server is worth its code: less than a fifth of ``python train.py`` with the same spec."""
    launched()
    warm, cold = [], []
    for n in range(2):
        start = time.perf_counter()
        assert launched().state == "completed"
        warm.append(time.perf_counter() - start)
        start = time.perf_counter()
        assert finished(*train_words(tmp_path / f"cold{n}"))[0] == 0
        cold.append(time.perf_counter() - start)
    assert statistics.median(w / c for w, c in zip(warm, cold, strict=True)) < 0.2
