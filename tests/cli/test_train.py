"""``python train.py``: the same run from the command line, under torchrun, over several ranks, or launched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.cli.train import main, out_folder
from harness.config import RunOptions, RunSpec
from harness.runs import Run, read_run
from tests.running import LIMIT_S, TINY, Launcher, losses, process, shared, train_words

TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node"]

WAYS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "python train.py": ([], {}),
    "torchrun 1": ([*TORCHRUN, "1"], {}),
    "torchrun 2": ([*TORCHRUN, "2"], {}),
    "--devices 2": ([], {"devices": 2}),
}
"""How a user starts a run, and what differs from TINY."""

HANG = """
class Model(nn.Linear):
    calls = 0

    def forward(self, inputs):
        Model.calls += 1
        if Model.calls == 7:
            time.sleep(600)
        return super().forward(inputs)

def make():
    return parts(model=Model(8, 2))
"""

NAN = "def make():\n    return parts(loss=lambda o, t: F.cross_entropy(o, t) * float('nan'))\n"

WORKLOADS = {"NAN": NAN, "HANG": HANG, "KILL": HANG.replace("time.sleep(600)", "os.kill(os.getpid(), 9)")}


@pytest.fixture(autouse=True)
def _signals_restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """Start every way at once, and return what each has left."""
    with shared(tmp_path_factory, "cold") as (root, first):
        for name, way in {name: start(root, name) for name in WAYS if first}.items():
            _, complaints = way.communicate(timeout=LIMIT_S)
            assert way.returncode == 0, f"{name}: {complaints}"
    return lambda name: read_run(root / name.replace(" ", "_"))


def start(root: Path, name: str) -> subprocess.Popen[str]:
    """Start one of the ways."""
    launcher, parts = WAYS[name]
    words = train_words(root / name.replace(" ", "_"), **parts)
    return process(*launcher, *words, stdout=subprocess.DEVNULL)


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the one line with which a command line is refused."""
    assert main(list(words)) in {1, 2}
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err.rstrip()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("python train.py", {}),
        ("torchrun 1", {}),
        ("torchrun 2", {"devices": 2}),
        ("--devices 2", {"devices": 2}),
    ],
)
def test_equal_spec_is_the_equal_run_however_it_is_started(
    cold: Callable[[str], Run], launched: Launcher, name: str, parts: dict[str, Any]
) -> None:
    """Bit by bit the same losses and the same metric as ``launch.run``."""
    run, reference = cold(name), launched(**parts)
    assert (run.state, len(losses(run))) == ("completed", 12)
    assert losses(run) == losses(reference)
    assert run.value("val_metric") == reference.value("val_metric")
    assert run.start["spec"] == reference.start["spec"]
    assert run.start["data_hash"] == reference.start["data_hash"]


@pytest.mark.slow
def test_ranks_of_torchrun_share_a_folder_without_being_told(tmp_path: Path) -> None:
    """Its name has the time of their common parent."""
    script = str(Path(__file__).parents[2] / "train.py")
    words = [*TORCHRUN, "2", script, "--size", "tiny", "--device", "cpu", "--max-steps", "2"]
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    [folder] = (tmp_path / "runs").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["rank0.jsonl", "rank1.jsonl"]
    assert folder.name.endswith("-digits_mlp-fp32")


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "devices"), [(signal.SIGINT, 1), (signal.SIGINT, 2), (signal.SIGTERM, 2)])
def test_interrupted_run_keeps_its_records_and_leaves_no_process(
    launched: Launcher, tmp_path: Path, sent: signal.Signals, devices: int
) -> None:
    """Ctrl-C, or a scheduler that wants its machine back."""
    words = train_words(tmp_path / "run", workload=launched.written(HANG), devices=devices)
    started = process(*words, start_new_session=True)
    wait_for(tmp_path / "run" / "rank0.jsonl", '"step": 6')
    started.send_signal(sent)
    output, complaints = started.communicate(timeout=LIMIT_S)
    assert started.returncode == 130
    assert "Traceback" not in complaints
    assert "interrupted" in complaints
    assert output.count("step=") == 6
    run = read_run(tmp_path / "run")
    assert (run.state, len(losses(run))) == ("interrupted", 6)
    assert not processes_with(str(tmp_path))


@pytest.mark.parametrize(
    ("parts", "code", "said"),
    [
        ({"workload": "NAN"}, 1, "diverged: the loss was not finite in 3 log lines in a row"),
        ({"workload": "NAN", "devices": 2}, 1, "train.py: rank 0 diverged: the loss was not finite in 3 log lines"),
        ({"workload": "HANG", "time-limit-s": 1}, 124, "timeout: the time limit of 1 s passed"),
        ({"workload": "HANG", "devices": 2, "time-limit-s": 1}, 124, "rank 0 timeout: the time limit of 1 s passed"),
        ({"workload": "KILL", "devices": 2}, 1, "train.py: rank 0 died: signal 9 (SIGKILL)"),
        ({"workload": "absent.py:make"}, 2, "refused: --workload: no file"),
        ({"workload": "absent.py:make", "devices": 2}, 2, "train.py: rank 0 refused: --workload: no file"),
    ],
)
def test_exit_code_says_how_a_run_ended(
    launched: Launcher, tmp_path: Path, capsys: pytest.CaptureFixture[str], parts: dict[str, Any], code: int, said: str
) -> None:
    """With one sentence on stderr and no traceback."""
    if parts["workload"] in WORKLOADS:
        parts = parts | {"workload": launched.written(WORKLOADS[parts["workload"]])}
    assert main(train_words(tmp_path / "run", **parts)[1:]) == code
    complaints = capsys.readouterr().err
    assert said in complaints
    assert "Traceback" not in complaints


@pytest.mark.slow
def test_reader_that_goes_away_ends_the_run(tmp_path: Path) -> None:
    """As with ``train.py | head -1``: no traceback, and what was recorded is kept."""
    reader, writer = os.pipe()
    os.close(reader)
    started = process(*train_words(tmp_path / "run", devices=2), stdout=writer)
    os.close(writer)
    _, complaints = started.communicate(timeout=LIMIT_S)
    assert (started.returncode, "Traceback" in complaints, "Exception ignored" in complaints) == (130, False, False)
    assert "standard output was closed by its reader" in complaints
    assert read_run(tmp_path / "run").state == "interrupted"


def test_output_on_a_full_disk_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The records lie elsewhere and are complete to that point."""
    with Path("/dev/full").open("w", encoding="ascii") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(train_words(tmp_path / "run")[1:]) == 1
    assert capsys.readouterr().err == "error: standard output cannot be written: No space left on device\n"
    assert read_run(tmp_path / "run").state == "error"


def test_run_in_this_process_prints_and_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command line beats the file, which beats the default."""
    (tmp_path / "run.yaml").write_text("max_steps: 4\nsize: tiny\ndevice: cpu\nlog_interval: 2\nlr: 1e-2\n")
    words = ["--config", str(tmp_path / "run.yaml"), "--max-steps", "6", "--out", str(tmp_path / "run")]
    assert main(words) == 0
    run = read_run(tmp_path / "run")
    assert (run.start["spec"]["max_steps"], run.start["spec"]["lr"], len(losses(run))) == (6, 0.01, 3)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "step=2",
        "step=4",
        "step=6",
        "epoch=1",
        "n=1",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--precision", "fp8"], "--precision: got 'fp8', accepted are fp32, tf32, bf16, fp16"),
        (["--config", "absent.yaml"], "absent.yaml: cannot be read: No such file or directory"),
        (["--restart-at", "500"], "restart_at=500 must be below max_steps=200"),
        (["--devices", "2", "--device", "emulated"], "--device emulated: this workload runs on cuda or cpu;"),
        (["--devices", "999", "--device", "cpu"], "--devices 999: on the cpu each needs a core of its own, and"),
        (["--steps", "5"], "unknown flag --steps (did you mean --max-steps?); train.py --help lists what is accepted"),
        (["--max=5"], "unknown flag --max; train.py --help lists"),
        (["--max-steps"], "--max-steps: a value is missing; one that begins with - is given as --max-steps=VALUE;"),
        (["7"], "unexpected word '7', accepted are flags; train.py --help lists"),
    ],
)
def test_mistake_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    """Before anything is written."""
    assert complaint(capsys, *words).startswith(f"train.py: error: {said}")


@pytest.mark.parametrize("devices", ["1", "2"])
@pytest.mark.parametrize(
    ("place", "said"),
    [("old", "it already holds a run; name a folder"), ("file/run", "cannot be written: Not a directory")],
)
def test_folder_that_cannot_hold_the_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], devices: str, place: str, said: str
) -> None:
    """An old run stays as it is, on one rank and on two."""
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "rank0.jsonl").write_text("{}\n")
    (tmp_path / "file").touch()
    words = ["--device", "cpu", "--devices", devices, "--out", str(tmp_path / place)]
    assert complaint(capsys, *words).startswith(f"train.py: error: --out {tmp_path / place}: {said}")
    assert (tmp_path / "old" / "rank0.jsonl").read_text() == "{}\n"


def test_number_of_ranks_is_the_launchers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A flag that says another number is a contradiction, not a wish."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    said = "train.py: error: --devices 3: the launcher started 2 rank(s); leave it out"
    assert complaint(capsys, "--devices", "3") == said


@pytest.mark.parametrize("devices", ["1", "2"])
def test_device_that_is_not_there_is_a_refusal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, devices: str
) -> None:
    """Nothing was wrong with the run; where a folder was made, its last record says it too."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["--device", "cuda", "--devices", devices, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert (said.count("\n"), "sees no GPU here; --device cpu works" in said) == (1, True)
    assert [read_run(folder).state for folder in tmp_path.iterdir()] == (["refused"] if devices == "1" else [])


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("devices", ["1", "2"])
def test_interrupt_says_whether_anything_was_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, devices: str, recorded: bool
) -> None:
    """And leaves no folder without a record."""

    def interrupted(*_: Any, **__: Any) -> None:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "rank0.jsonl").write_text("{}\n" * recorded)
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.launch.run", interrupted)
    monkeypatch.setattr("harness.engine.run.execute", interrupted)
    assert main(["--device", "cpu", "--devices", devices, "--out", str(tmp_path / "run")]) == 130
    kept = f"its records are in {tmp_path / 'run'}" if recorded else "nothing was recorded"
    assert capsys.readouterr().err == f"train.py: interrupted; {kept}\n"
    assert (tmp_path / "run").exists() == recorded


@pytest.mark.parametrize(
    ("workload", "name"),
    [("digits_mlp", "digits_mlp"), ("some/where/mine.py:make", "mine"), ("mine.py:make", "mine")],
)
def test_folder_is_named_by_time_workload_and_precision(workload: str, name: str) -> None:
    """Where the user names none."""
    spec = RunSpec(workload=workload, precision="bf16")
    assert out_folder(spec, RunOptions(), 0.25) == Path(f"runs/19700101-000000-250-{name}-bf16")
    assert out_folder(spec, RunOptions(out="there"), 0.25) == Path("there")


def test_tiny_is_on_the_host() -> None:
    """The flags of ``train_words`` and the spec of the launcher mean the same run."""
    assert (TINY.device, TINY.size, TINY.max_steps, TINY.batch_size) == ("cpu", "tiny", 12, 32)


def wait_for(path: Path, text: str) -> None:
    """Wait until a file holds a text."""
    for _ in range(int(LIMIT_S / 0.05)):
        if path.exists() and text in path.read_text():
            return
        time.sleep(0.05)
    raise TimeoutError(path)


def processes_with(word: str) -> list[int]:
    """Return the processes, other than zombies, that have a file of this folder open or in their command."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            links = [str(link.readlink()) for link in (place / "fd").iterdir()]
            command = (place / "cmdline").read_text()
        except OSError:
            continue
        if int(place.name) != os.getpid() and (word in command or any(word in link for link in links)):
            found.append(int(place.name))
    return found
