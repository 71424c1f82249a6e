"""A checkpoint that is not this run's own is one sentence, and nothing in it is executed."""

from __future__ import annotations

import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.config import RunSpec
from harness.engine.checkpoint import FORMAT, KEPT, read
from harness.errors import UsageError
from tests.running import TINY, Launcher


class Evil:
    """Unpickling it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        """Return what the unpickler would call."""
        return os.mkdir, (str(self.path),)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a good checkpoint of TINY at step 4."""
    run = Launcher(tmp_path_factory.mktemp("saved"))(checkpoint_interval=4, max_steps=8)
    return run.folder / "step4.pt"


def whole() -> dict[str, Any]:
    """Return the outer form of a checkpoint."""
    kept = {name: getattr(TINY, name) for name in KEPT}
    return {"format": FORMAT, "position": {"step": 4, "batches": 4, "loss_scale": 1.0}, "kept": kept}


def test_good_checkpoint_is_read(saved: Path) -> None:
    """The position and everything that decides how the run goes on."""
    state = read(saved)
    assert state["position"] == {"step": 4, "batches": 4, "loss_scale": 1.0}
    assert set(state) == {"format", "position", "kept", "model", "optimizer", "schedule", "scaler", "generators"}


@pytest.mark.parametrize("where", ["torch.save", "pickle", "zip"])
def test_code_in_a_checkpoint_is_not_executed(tmp_path: Path, where: str) -> None:
    """A stranger's file is data, however it was written."""
    path, trace = tmp_path / "evil.pt", tmp_path / "executed"
    evil = whole() | {"model": Evil(trace)}
    if where == "torch.save":
        torch.save(evil, path)
    elif where == "pickle":
        path.write_bytes(pickle.dumps(evil))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps(evil))
            archive.writestr("archive/version", "3\n")
    with pytest.raises(UsageError, match="not a checkpoint of this program"):
        read(path)
    assert not trace.exists()


@pytest.mark.parametrize(
    "content", [b"", b"\x00" * 100, b"a: 1\n", b"PK\x03\x04", b"\x80\x02}q\x00.", bytes(range(256)) * 20]
)
def test_bytes_that_are_no_checkpoint_are_refused(tmp_path: Path, content: bytes) -> None:
    """Whatever the file holds, the sentence names it."""
    path = tmp_path / "other.pt"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read(path)
    assert str(caught.value).startswith(f"--resume {path}: not a checkpoint of ")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_truncated_checkpoint_is_refused(saved: Path, tmp_path: Path, share: float) -> None:
    """A copy that stopped half-way."""
    path = tmp_path / "half.pt"
    path.write_bytes(saved.read_bytes()[: int(saved.stat().st_size * share)])
    with pytest.raises(UsageError, match="not a checkpoint of this program"):
        read(path)


@pytest.mark.parametrize(("name", "said"), [("absent.pt", "No such file or directory"), ("folder", "Is a directory")])
def test_path_that_cannot_be_read_is_named(tmp_path: Path, name: str, said: str) -> None:
    """The operating system's own reason is part of the sentence."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match=f"cannot be read: {said}"):
        read(tmp_path / name)


@pytest.mark.parametrize(
    "state",
    [
        [1, 2],
        torch.zeros(3),
        {"weight": torch.zeros(3)},
        whole() | {"format": FORMAT + 1},
        whole() | {"format": None},
        {key: value for key, value in whole().items() if key != "position"},
        whole() | {"position": {"step": 4}},
        whole() | {"position": {"step": "4", "batches": 4, "loss_scale": 1.0}},
        whole() | {"position": {"step": float("nan"), "batches": 4, "loss_scale": 1.0}},
        whole() | {"position": {"step": -4, "batches": 4, "loss_scale": 1.0}},
        whole() | {"position": {"step": 4, "batches": 10**30, "loss_scale": 1.0}},
    ],
)
def test_checkpoint_of_another_program_is_refused(tmp_path: Path, state: Any) -> None:
    """A file that torch can read is not yet one of ours."""
    torch.save(state, tmp_path / "other.pt")
    with pytest.raises(UsageError, match=f"not a checkpoint of format {FORMAT}"):
        read(tmp_path / "other.pt")


def test_checkpoint_that_names_no_run_is_refused(tmp_path: Path) -> None:
    """Without the kept parts nobody can tell whether it fits."""
    torch.save(whole() | {"kept": 5}, tmp_path / "other.pt")
    with pytest.raises(UsageError, match="it does not say which run it was saved by"):
        read(tmp_path / "other.pt")


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"seed": 1}, "it was saved with seed=42 (here 1); a resumed run keeps these"),
        ({"lr": 0.1, "batch_size": 16}, "it was saved with batch_size=32 (here 16), lr=0.001 (here 0.1);"),
        ({"optimizer": "sgd"}, "it was saved with optimizer=adamw (here sgd);"),
        ({"grad_accum": 2}, "it was saved with grad_accum=1 (here 2);"),
        ({"devices": 2}, "it was saved with devices=1 (here 2);"),
        ({"size": "small"}, "it does not fit this run: RuntimeError: Error(s) in loading state_dict"),
        ({"workload": "digits_cnn"}, "it does not fit this run: RuntimeError: Error(s) in loading state_dict"),
        ({"max_steps": 4}, "it is at step 4; max_steps=4 leaves nothing"),
    ],
)
def test_checkpoint_of_another_run_is_refused(
    launched: Launcher, saved: Path, parts: dict[str, Any], said: str
) -> None:
    """A changed part is named with both values; nothing is quietly taken from the file."""
    run = launched(resume=str(saved), **parts)
    assert run.state == "refused"
    assert f"rank 0 refused: --resume {saved}: {said}" in run.message
    assert "Traceback" not in (run.folder / "rank0.log").read_text()


@pytest.mark.parametrize("key", ["model", "optimizer", "schedule", "scaler", "generators"])
@pytest.mark.parametrize("value", [None, 5, {}, {"cpu": 1}, [], [{"cpu": torch.zeros(3)}], {"param_groups": []}])
def test_broken_part_of_a_checkpoint_is_refused(
    launched: Launcher, saved: Path, tmp_path: Path, key: str, value: Any
) -> None:
    """A state that does not fit ends in a sentence; an empty scaler state is what other precisions save."""
    torch.save(torch.load(saved) | {key: value}, tmp_path / "broken.pt")
    run = launched(resume=str(tmp_path / "broken.pt"))
    assert run.state == ("completed" if key == "scaler" else "refused"), run.message
    assert "Traceback" not in (run.folder / "rank0.log").read_text()


def test_kept_parts_are_parts_of_a_spec() -> None:
    """A renamed field is noticed here."""
    assert set(KEPT) <= set(RunSpec.__struct_fields__)


def test_checkpoint_crosses_precisions(launched: Launcher, saved: Path) -> None:
    """Weights trained in fp32 go on in bf16 and fp16."""
    for precision in ("bf16", "fp16"):
        assert launched(resume=str(saved), precision=precision).state == "completed"
