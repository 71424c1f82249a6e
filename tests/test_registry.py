"""A plug-in is one file in its folder, found without importing it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.registry import Registry

ROOT = Path(__file__).parents[1]

WORKLOADS: Registry[object] = Registry("workload", "harness.workloads", "build")


def test_names_are_the_files_of_the_folder() -> None:
    """Shared code, which begins with an underscore or is called base, is no plug-in."""
    files = {path.stem for path in (ROOT / "harness/workloads").glob("*.py")}
    assert set(WORKLOADS.names()) == {name for name in files if not name.startswith("_")} - {"base"}
    assert WORKLOADS.names() == sorted(WORKLOADS.names())


def test_a_new_file_is_a_new_plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has to be registered."""
    monkeypatch.setattr("harness.registry.__file__", str(tmp_path / "registry.py"))
    (tmp_path / "things").mkdir()
    for name in ("new.py", "_shared.py", "base.py", "notes.txt"):
        (tmp_path / "things" / name).touch()
    assert Registry("thing", "harness.things", "THING").names() == ["new"]


def test_loading_returns_the_attribute() -> None:
    """The plug-in is what its file defines under the agreed name."""
    assert callable(WORKLOADS.load("digits_mlp"))
    assert list(WORKLOADS.load_all()) == WORKLOADS.names()


@pytest.mark.parametrize("name", ["digits_mpl", "base", "_digits", "", "../workloads/digits_mlp", "os"])
def test_unknown_name_lists_what_is_there(name: str) -> None:
    """Neither shared code nor a path can be loaded."""
    with pytest.raises(UsageError) as caught:
        WORKLOADS.load(name)
    assert str(caught.value).startswith(f"unknown workload {name!r}")
    assert str(caught.value).endswith("there are: " + ", ".join(WORKLOADS.names()))


def test_near_miss_gets_a_hint() -> None:
    """A typing error is recognised."""
    with pytest.raises(UsageError, match=r"\(did you mean 'digits_mlp'\?\)"):
        WORKLOADS.load("digits_mpl")


def test_names_import_nothing() -> None:
    """Help texts and test collection stay instant."""
    code = (
        "import sys; from harness.registry import Registry; names = Registry('x', 'harness.faults', 'FAULT').names();"
        "assert names; assert not {'torch', 'harness.faults.base'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
