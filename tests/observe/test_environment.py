"""Does the fingerprint describe the machine and the code, everywhere, and without importing torch?"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.observe import environment
from harness.observe.environment import fingerprint, fingerprint_id


def git(folder: Path, *words: str) -> str:
    """Run git and return what it printed."""
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout with one commit, taken for the project folder."""
    git(tmp_path, "init", "-q")
    (tmp_path / "a.py").write_text("x = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    monkeypatch.setattr(environment, "PROJECT", tmp_path)
    return tmp_path


def fake_torch(*, cuda: str | None, cudnn: int | None) -> Any:
    """Return what a fingerprint asks torch for."""
    return SimpleNamespace(
        version=SimpleNamespace(cuda=cuda),
        backends=SimpleNamespace(cudnn=SimpleNamespace(version=lambda: cudnn)),
        distributed=SimpleNamespace(is_available=lambda: True, is_nccl_available=lambda: True),
        cuda=SimpleNamespace(nccl=SimpleNamespace(version=lambda: (2, 27, 5))),
    )


def test_fingerprint_has_every_part() -> None:
    """Every part is there, also those that could not be found out."""
    assert set(fingerprint()) == {
        *("cpu", "cores_available", "memory_gib", "gpus", "driver", "os", "python", "torch", "numpy"),
        *("cuda", "cudnn", "nccl", "git_commit", "git_dirty", "thread_variables"),
    }


def test_fingerprint_hides_the_host_name() -> None:
    """A report may be shown to anybody: the host's name is not in it."""
    assert platform.node() not in re.findall(r"[\w.-]+", json.dumps(fingerprint()))


def test_fingerprint_is_stable_and_standard_json() -> None:
    """Two fingerprints of one process are equal, and so are their ids after a trip through JSON."""
    one, other = fingerprint(), fingerprint()
    assert one == other
    assert fingerprint_id(one) == fingerprint_id(json.loads(json.dumps(other, allow_nan=False)))


def test_fingerprint_does_not_import_torch() -> None:
    """Printing a fingerprint is instant: torch stays out of the process."""
    code = (
        "import sys; from harness.observe.environment import fingerprint; fingerprint(); print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=environment.PROJECT, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "False"


def test_fingerprint_id_follows_the_content() -> None:
    """The id is 12 hex digits, ignores the order of keys and changes with any value."""
    one = fingerprint_id({"a": 1, "b": float("nan")})
    assert one == fingerprint_id({"b": float("nan"), "a": 1})
    assert one != fingerprint_id({"a": 2, "b": float("nan")})
    assert len(one) == 12
    assert int(one, 16) >= 0


def test_loaded_torch_tells_its_own_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch that is loaded anyway knows best which libraries it uses."""
    monkeypatch.setitem(sys.modules, "torch", fake_torch(cuda="12.8", cudnn=91002))
    found = fingerprint()
    assert (found["cuda"], found["cudnn"], found["nccl"]) == ("12.8", "9.10.2", "2.27.5")


def test_loaded_torch_without_cuda_has_no_gpu_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU build of torch has none, whatever packages are installed."""
    monkeypatch.setitem(sys.modules, "torch", fake_torch(cuda=None, cudnn=None))
    found = fingerprint()
    assert (found["cuda"], found["cudnn"], found["nccl"]) == (None, None, None)


@pytest.mark.parametrize(("number", "text"), [(91002, "9.10.2"), (90100, "9.1.0"), (8907, "8.9.7"), (None, None)])
def test_cudnn_number_is_read_in_both_forms(monkeypatch: pytest.MonkeyPatch, number: int, text: str) -> None:
    """The number of a cuDNN version is built differently before and from version 9."""
    monkeypatch.setitem(sys.modules, "torch", fake_torch(cuda="12.8", cudnn=number))
    assert fingerprint()["cudnn"] == text


def test_packages_tell_the_libraries_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a loaded torch the installed packages tell, cut to the digits that torch would report."""
    installed = {"nvidia-cuda-runtime-cu12": "12.8.90", "nvidia-cudnn-cu12": "9.10.2.21", "nvidia-nccl-cu13": "2.27.5"}
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(environment, "_package", installed.get)
    found = fingerprint()
    assert (found["cuda"], found["cudnn"], found["nccl"]) == ("12.8", "9.10.2", "2.27.5")


def test_gpu_models_come_from_the_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The driver's own list names the cards, without a CUDA context."""
    (tmp_path / "information").write_text("Model: \t\t NVIDIA H200\nIRQ:   \t\t 33\n")
    monkeypatch.setattr(environment, "_gpu_files", lambda: [tmp_path / "information"])
    assert fingerprint()["gpus"] == ["NVIDIA H200"]


def test_thread_variables_are_those_that_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thread settings change speed and rounding, so those that are set are part of the place."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    found = fingerprint()["thread_variables"]
    assert found["OMP_NUM_THREADS"] == "1"
    assert "MKL_NUM_THREADS" not in found


def test_clean_checkout_has_its_commit(checkout: Path) -> None:
    """The commit is the one of the project folder, and nothing was changed since."""
    found = fingerprint()
    assert found["git_commit"] == git(checkout, "rev-parse", "HEAD")
    assert found["git_dirty"] is False


@pytest.mark.parametrize("name", ["a.py", "new.py"])
def test_changed_or_new_file_makes_a_checkout_dirty(checkout: Path, name: str) -> None:
    """Both an edit and a file that git does not know can change a result."""
    (checkout / name).write_text("x = 2\n")
    assert fingerprint()["git_dirty"] is True


def test_folder_inside_another_checkout_has_no_commit(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed copy inside somebody's repository does not borrow that repository's commit."""
    (checkout / "site-packages").mkdir()
    monkeypatch.setattr(environment, "PROJECT", checkout / "site-packages")
    found = fingerprint()
    assert (found["git_commit"], found["git_dirty"]) == (None, None)


def test_git_variables_do_not_point_elsewhere(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a git hook, variables name another repository: they are ignored."""
    commit = git(checkout, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert fingerprint()["git_commit"] == commit


@pytest.mark.parametrize("where", ["no checkout", "no commit", "no git"])
def test_missing_git_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Without a checkout, a commit or git itself there is simply nothing to tell."""
    if where == "no commit":
        git(tmp_path, "init", "-q")
    if where == "no git":
        monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(environment, "PROJECT", tmp_path)
    found = fingerprint()
    assert (found["git_commit"], found["git_dirty"]) == (None, None)
