"""However a run ends, it says how, nothing of it goes on, and what it had recorded is readable."""

from __future__ import annotations

import pytest

from harness import launch
from harness.config import RunOptions
from harness.runs import Run
from tests.running import Launcher, losses

BROKEN = """
class Model(nn.Linear):
    calls = 0

    def forward(self, inputs):
        Model.calls += 1
        if Model.calls == 7 and os.environ["RANK"] in "RANKS":
            WHAT
        return super().forward(inputs)

def make():
    return parts(model=Model(8, 2))
"""

ENDLESS = "[None for _ in iter(int, 1)]"

DEAF = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM, signal.SIGTERM]); time.sleep(600)"

TWO_SECONDS = RunOptions(log_interval=1, time_limit_s=2)


def broken(what: str, ranks: str = "0") -> str:
    """Return a workload whose seventh forward pass goes wrong on these ranks."""
    return BROKEN.replace("WHAT", what).replace("RANKS", ranks)


def kept(run: Run) -> None:
    """Make sure that the six steps before the end are there, and nothing unreadable."""
    for rank in run.ranks:
        assert [record["step"] for record in rank.of("step")] == [1, 2, 3, 4, 5, 6]
        assert rank.unusable_lines == 0


@pytest.mark.parametrize(("devices", "rank"), [(1, 0), (2, 0), (2, 1)])
@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("os.kill(os.getpid(), 9)", "signal 9 (SIGKILL)"),
        ("os.abort()", "signal 6 (SIGABRT)"),
        ("os._exit(3)", "exit code 3"),
        ("os._exit(0)", "its records end early"),
    ],
)
def test_killed_rank_is_named_with_its_signal(
    launched: Launcher, devices: int, rank: int, what: str, said: str
) -> None:
    """The other rank ends too, and is not what the run is blamed for."""
    run = launched.workload(broken(what, str(rank)), devices=devices)
    assert run.state == "died"
    assert run.message.startswith(f"rank {rank} died: {said}")
    kept(run)


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize(
    ("what", "state", "said"),
    [
        ("raise ValueError('bad')", "refused", "mine.py:make: ValueError: bad (mine.py, line"),
        ("raise MemoryError", "oom", "MemoryError"),
        ("torch.empty(10**15)", "oom", "can't allocate memory"),
        ("raise KeyboardInterrupt", "interrupted", "stopped by Ctrl-C or SIGTERM"),
        ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)", "interrupted", "stopped by Ctrl-C or SIGTERM"),
        ("os.kill(os.getpid(), signal.SIGINT); time.sleep(9)", "interrupted", "stopped by Ctrl-C or SIGTERM"),
    ],
)
def test_rank_that_can_say_why_says_it(launched: Launcher, devices: int, what: str, state: str, said: str) -> None:
    """The reason of the one that failed comes first; the other only lost it."""
    run = launched.workload(broken(what, str(devices - 1)), devices=devices)
    assert run.state == state
    assert run.message.startswith(f"rank {devices - 1} {state}: ")
    assert said in run.message
    kept(run)


@pytest.mark.parametrize("what", ["time.sleep(600)", ENDLESS])
@pytest.mark.parametrize(("devices", "ranks"), [(1, "0"), (2, "1"), (2, "01")])
def test_run_beyond_its_time_limit_stops_itself(launched: Launcher, what: str, devices: int, ranks: str) -> None:
    """Asleep or busy, alone or waited for: the state is timeout."""
    run = launched.workload(broken(what, ranks), TWO_SECONDS, devices=devices)
    assert run.state == "timeout"
    assert "the time limit of 2 s passed" in run.message
    kept(run)


def test_time_limit_holds_between_log_lines(launched: Launcher) -> None:
    """A limit that is looked at only when something is logged would wait for the last step."""
    run = launched(RunOptions(log_interval=10**9, time_limit_s=2), max_steps=10**6)
    assert run.state == "timeout"


@pytest.mark.parametrize("devices", [1, 2])
def test_rank_that_hears_no_signal_is_killed(launched: Launcher, monkeypatch: pytest.MonkeyPatch, devices: int) -> None:
    """The launcher's own limit ends what does not end itself."""
    monkeypatch.setattr(launch, "PEER_GRACE_S", 0.2)
    run = launched.workload(broken(DEAF, "01"), TWO_SECONDS, devices=devices)
    assert run.state == "timeout"
    assert run.message.startswith("rank 0 timeout: no end within 3.2 s")
    kept(run)


def test_run_without_a_limit_has_the_callers(launched: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session does not hang on one run."""
    monkeypatch.setattr(launched, "limit_s", 1.0)
    run = launched.workload(broken("time.sleep(600)"), RunOptions(log_interval=1))
    assert run.state == "timeout"
    assert run.message.startswith("rank 0 timeout: no end within 1 s")
    assert run.ranks[0].state == "interrupted"


def test_rank_that_does_not_notice_a_death_is_stopped(launched: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """One rank is gone, the other sleeps: it is stopped, and the run is blamed on the one that is gone."""
    monkeypatch.setattr(launch, "PEER_GRACE_S", 0.2)
    code = broken("time.sleep(600) if os.environ['RANK'] == '0' else os._exit(3)", "01")
    run = launched.workload(code, devices=2)
    assert run.state == "died"
    assert run.message.startswith("rank 1 died: exit code 3")
    assert "rank 0 interrupted: stopped because another rank died" in run.message


def test_rank_that_hangs_after_the_others_have_ended_is_late(
    launched: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody died: it is not said that another rank did."""
    monkeypatch.setattr(launch, "PEER_GRACE_S", 0.2)
    hang = "def end():\n    if os.environ['RANK'] == '1':\n        " + DEAF + "\n"
    code = f"import harness.engine.run\n{hang}harness.engine.run.leave = end\ndef make():\n    return parts()\n"
    run = launched.workload(code, TWO_SECONDS, devices=2)
    assert (run.state, run.ranks[0].state) == ("timeout", "completed")
    assert run.message.startswith("rank 1 timeout: no end within 3.2 s")


@pytest.mark.parametrize("devices", [1, 2])
def test_loss_that_stays_not_finite_is_a_divergence(launched: Launcher, devices: int) -> None:
    """Three log lines in a row; the lines themselves are kept."""
    code = "def make():\n    return parts(loss=lambda o, t: F.cross_entropy(o, t) * float('nan'))\n"
    run = launched.workload(code, devices=devices)
    assert run.state == "diverged"
    assert "not finite in 3 log lines in a row, until step 3" in run.message
    assert [str(loss) for loss in losses(run)] == ["nan", "nan", "nan"]


def test_single_loss_that_is_not_finite_is_none(launched: Launcher) -> None:
    """It can be a step that the scaler skips: the lines in between start the count anew."""
    run = launched(precision="fp16", init_scale=2.0**40, max_steps=30)
    assert run.state == "completed"
    assert run.summary["skipped_steps"] > 3


@pytest.mark.parametrize(
    "code", ["torch.zeros(10**8)", "Model.kept = getattr(Model, 'kept', []) + [torch.zeros(10**7)] * 1"]
)
def test_memory_limit_ends_in_out_of_memory(launched: Launcher, code: str) -> None:
    """A real allocation fails, at once or after a while, and the run can still say so."""
    run = launched.workload(broken(code).replace("== 7", ">= 7"), memory_limit_mb=200, max_steps=200)
    assert run.state == "oom"
    assert "can't allocate memory" in run.message
    assert len(losses(run)) >= 6


@pytest.mark.parametrize("limit_mb", [1, 2, 5])
def test_small_memory_limit_is_out_of_memory_from_the_start(launched: Launcher, limit_mb: int) -> None:
    """Building the optimizer or the first step fails; the last record is written nevertheless."""
    run = launched(size="large", memory_limit_mb=limit_mb)
    assert run.state == "oom"


def test_roomy_memory_limit_changes_no_number(launched: Launcher) -> None:
    """The limit only decides whether there is room."""
    assert losses(launched(memory_limit_mb=2000)) == losses(launched())


@pytest.mark.parametrize("devices", [1, 2])
def test_full_disk_ends_in_a_clear_state(launched: Launcher, devices: int) -> None:
    """What fitted is readable, and the error names the file and the reason."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))"
    run = launched.workload(broken(limit, str(devices - 1)), devices=devices, max_steps=200)
    assert run.state == "died"
    assert run.message.startswith(f"rank {devices - 1} died: exit code 1")
    log = (run.folder / "rank0.log").read_text()
    assert "Traceback" not in log
    assert f"rank{devices - 1}.jsonl cannot be written: File too large" in run.message
    assert [record["step"] for record in run.ranks[devices - 1].of("step")][:6] == [1, 2, 3, 4, 5, 6]


def test_checkpoint_that_does_not_fit_is_an_error(launched: Launcher) -> None:
    """No half checkpoint is left that a later resume would find."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))"
    run = launched.workload(broken(limit), RunOptions(log_interval=100), checkpoint_interval=8, observe="off")
    assert run.state == "error"
    assert "step8.pt cannot be written; is the disk full?" in run.message
    assert list(run.folder.glob("*.p*t*")) == []
