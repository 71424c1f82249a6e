"""Is each run executed once, whoever asks, and again when somebody was interrupted?"""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import pytest

from harness.config import RunOptions, RunSpec, digest
from harness.errors import LaunchError
from harness.experiment import store as module
from harness.experiment.store import Prefetch, RunStore
from harness.observe.recorder import Recorder
from harness.runs import Run, read_run
from tests.gallery import tiny


class Launcher:
    """Stands for the launcher: counts, and leaves a run folder."""

    def __init__(self) -> None:
        self.launched: list[tuple[RunSpec, Path]] = []
        self.given: list[dict[str, Any]] = []
        self.failure: Exception | None = None
        self.gate: threading.Event | None = None
        self.lock = threading.Lock()

    def __call__(self, spec: RunSpec, folder: Path, options: RunOptions | None = None, **given: Any) -> Run:
        """Leave a folder with one record."""
        if self.gate is not None:
            assert self.gate.wait(10)
        with self.lock:
            self.launched.append((spec, folder))
            self.given.append(given)
        if self.failure is not None:
            raise self.failure
        recorder = Recorder(folder, 0)
        recorder.write("end", state="completed", summary={"number": len(self.launched)})
        recorder.close()
        return read_run(folder)


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> Launcher:
    """Replace the launcher of the store."""
    made = Launcher()
    monkeypatch.setattr(module, "launch", made)
    return made


def test_equal_specs_are_executed_once(launcher: Launcher, tmp_path: Path) -> None:
    """The second time the records are read."""
    store = RunStore(tmp_path)
    first, second = store.get(tiny()), store.get(tiny())
    assert len(launcher.launched) == 1
    assert (first.folder, first.value("number")) == (second.folder, second.value("number"))
    assert first.folder.name == digest(tiny())


def test_another_spec_or_another_repeat_is_another_run(launcher: Launcher, tmp_path: Path) -> None:
    """Each has a folder of its own."""
    store = RunStore(tmp_path)
    folders = {store.get(tiny()).folder, store.get(tiny(seed=7)).folder, store.get(tiny(), repeat=1).folder}
    assert len(folders) == len(launcher.launched) == 3
    store.get(tiny(), repeat=1)
    assert len(launcher.launched) == 3


def test_stores_of_one_folder_share_their_runs(launcher: Launcher, tmp_path: Path) -> None:
    """Another process of the session finds what this one has run."""
    assert RunStore(tmp_path).get(tiny()).folder == RunStore(tmp_path).get(tiny()).folder
    assert len(launcher.launched) == 1


def test_what_an_interrupted_session_left_is_run_again(launcher: Launcher, tmp_path: Path) -> None:
    """A folder without its mark is no run, and does not stand in the way."""
    left = tmp_path / digest(tiny())
    left.mkdir(parents=True)
    (left / "rank0.jsonl").write_text('{"event": "start"}\n')
    run = RunStore(tmp_path).get(tiny())
    assert (run.state, len(launcher.launched)) == ("completed", 1)


def test_a_launch_that_fails_leaves_no_mark(launcher: Launcher, tmp_path: Path) -> None:
    """The next one who asks tries again."""
    store = RunStore(tmp_path)
    launcher.failure = LaunchError("no process")
    with pytest.raises(LaunchError):
        store.get(tiny())
    launcher.failure = None
    assert store.get(tiny()).state == "completed"


def test_peek_never_runs_anything(launcher: Launcher, tmp_path: Path) -> None:
    """It returns what is there."""
    store = RunStore(tmp_path)
    assert store.peek(tiny()) is None
    store.get(tiny())
    found = store.peek(tiny())
    assert found is not None
    assert (found.state, len(launcher.launched)) == ("completed", 1)


def test_a_peek_tells_the_executions_of_a_spec_apart(launcher: Launcher, tmp_path: Path) -> None:
    """The second execution is not shown as the first."""
    store = RunStore(tmp_path)
    store.get(tiny())
    assert store.peek(tiny(), repeat=1) is None
    again = store.get(tiny(), repeat=1)
    seen = store.peek(tiny(), repeat=1)
    assert seen is not None
    assert seen.folder == again.folder != store.get(tiny()).folder


def test_who_asks_meanwhile_waits(launcher: Launcher, tmp_path: Path) -> None:
    """Two threads that ask for the same run get the same one."""
    launcher.gate = threading.Event()
    found: list[Run] = []
    threads = [threading.Thread(target=lambda: found.append(RunStore(tmp_path).get(tiny()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    launcher.gate.set()
    for thread in threads:
        thread.join(10)
    assert (len(found), len(launcher.launched)) == (3, 1)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Return what was leased and released; every lease gives two GPUs."""
    seen: list[tuple[Any, ...]] = []

    class Lease:
        def __init__(self, *wanted: Any) -> None:
            seen.append(wanted)

        def __enter__(self) -> list[str]:
            return ["GPU-a", "GPU-b"]

        def __exit__(self, *_: object) -> None:
            seen.append(("released",))

    monkeypatch.setattr(module, "lease", Lease)
    return seen


def test_a_gpu_run_holds_a_lease(launcher: Launcher, tmp_path: Path, held: list[tuple[Any, ...]]) -> None:
    """Its devices come from the lease; a run on the CPU needs none."""
    store = RunStore(tmp_path)
    store.get(tiny(device="cuda", devices=2))
    store.get(tiny())
    assert held == [(2, "cuda", module.LEASE_WAIT_S), ("released",)]
    assert launcher.given == [
        {"environment": {"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}, "limit_s": math.inf},
        {"limit_s": math.inf},
    ]


def test_runs_that_are_compared_share_one_lease(
    launcher: Launcher, tmp_path: Path, held: list[tuple[Any, ...]]
) -> None:
    """All are measured on the same devices, and nobody else comes in between."""
    store = RunStore(tmp_path)
    with store.alone("cuda", 2):
        store.get(tiny(device="cuda", devices=2))
        store.get(tiny(device="cuda", devices=1))
    assert held == [(2, "cuda", module.LEASE_WAIT_S), ("released",)]
    visible = [given["environment"]["CUDA_VISIBLE_DEVICES"] for given in launcher.given]
    assert visible == ["GPU-a,GPU-b", "GPU-a"]


def test_prefetched_runs_are_there_when_asked_for(launcher: Launcher, tmp_path: Path) -> None:
    """Each spec once, also when it is listed twice."""
    store = RunStore(tmp_path)
    prefetch = Prefetch(store, [(tiny(seed=seed), 0) for seed in (1, 2, 1)], 2)
    runs = [store.get(tiny(seed=seed)) for seed in (1, 2)]
    prefetch.stop(abandon=False)
    assert ([run.state for run in runs], len(launcher.launched)) == (["completed"] * 2, 2)


def test_a_stopped_prefetch_starts_nothing_more(launcher: Launcher, tmp_path: Path) -> None:
    """What is under way ends, what waits is dropped."""
    launcher.gate = threading.Event()
    prefetch = Prefetch(RunStore(tmp_path), [(tiny(seed=seed), 0) for seed in range(20)], 1)
    stopping = threading.Thread(target=lambda: prefetch.stop(abandon=False))
    stopping.start()
    launcher.gate.set()
    stopping.join(20)
    assert len(launcher.launched) < 20


def test_a_real_run_is_stored_whole(store: RunStore) -> None:
    """The folder holds the records, the log and the mark."""
    run = store.get(tiny(max_steps=5, val_interval=5))
    assert run.state == "completed"
    assert {"rank0.jsonl", "rank0.log", "done"} <= {path.name for path in run.folder.iterdir()}
