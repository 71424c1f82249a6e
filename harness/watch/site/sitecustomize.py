"""Loaded by every Python process of a watched command, before its own first line: waits for torch to be imported.

Python imports ``sitecustomize`` by itself from the first folder of its path that holds one, and this folder is put
there. Nothing here may disturb the process: without torch it costs a few lines of Python, and a failure leaves a note.
It has to load under any Python 3, to say that watching needs a newer one.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

SITE = Path(__file__).resolve().parent

NEEDED = (3, 11)


class TorchFinder(MetaPathFinder):
    """Finds torch as Python would, and has the observers attached once it is loaded."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Answer for torch alone, and once."""
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = TorchLoader(spec.loader)
        return spec


class TorchLoader(Loader):
    """Loads torch as Python would, then attaches."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave it to the loader of torch."""
        made: ModuleType | None = self.loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Load torch; from then on nobody can tell that this loader was there."""
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        module.__loader__ = self.loader
        self.loader.exec_module(module)
        try:
            attach()
        except Exception as error:  # a watcher must never end what it watches
            note(f"{type(error).__name__}: {error}")


def attach() -> None:
    """Import our own package, whatever else is called like it in this process, and start to observe."""
    if tuple(sys.version_info) < NEEDED:
        raise RuntimeError(f"this Python is {sys.version.split()[0]}, and watching needs 3.11")
    root = str(SITE.parents[2])
    theirs = _taken()
    has_own = bool(theirs) or _elsewhere()
    sys.path.insert(0, root)
    try:
        from harness.watch.inside import start

        start(Path(os.environ["GPU_EXAM_WATCH"]), os.environ.get("GPU_EXAM_WATCH_LEVEL", "default"))
    finally:
        sys.path.remove(root)
        if has_own:
            # What is loaded keeps working without its name. Otherwise it stays: torch.compile asks for it by name.
            _taken()
            sys.modules.update(theirs)


def _elsewhere() -> bool:
    """Tell whether the process would find a ``harness`` that is not ours."""
    found = importlib.util.find_spec("harness")
    places = [] if found is None else [*(found.submodule_search_locations or []), found.origin or ""]
    return any(Path(place).resolve() not in {SITE.parents[1], SITE.parents[1] / "__init__.py"} for place in places)


def _taken() -> dict[str, ModuleType]:
    """Take every module called ``harness`` out of Python's table."""
    names = [name for name in sys.modules if name.partition(".")[0] == "harness"]
    return {name: sys.modules.pop(name) for name in names}


def note(text: str) -> None:
    """Leave a note for the command that watches; there is nobody else to tell."""
    try:
        with Path(os.environ["GPU_EXAM_WATCH"], f"note-{os.getpid()}.txt").open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError:
        return


def hand_over() -> None:
    """Run the ``sitecustomize`` that Python would have found without this one."""
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != SITE]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("GPU_EXAM_WATCH"):
    sys.meta_path.insert(0, TorchFinder())
hand_over()
