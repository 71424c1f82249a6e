"""Which workload does a spec name? A built-in one, or the user's own ``path.py:FACTORY``."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from harness.errors import HarnessError, WorkloadError
from harness.registry import Registry
from harness.workloads.base import TensorPairs, Workload, as_workload, size_of

WORKLOADS: Registry[Callable[[str], Workload]] = Registry("workload", "harness.workloads", "build")

HASHED_SAMPLES = 256
"""Samples of a user's dataset that enter the data hash, evenly spaced; our own are hashed whole."""


def is_user_workload(name: str) -> bool:
    """Tell whether a workload name is ``path.py:FACTORY``."""
    return ".py" in name or "/" in name


def load_workload(name: str, size: str, seed: int) -> Workload:
    """Build the workload with torch's generators seeded; every failure names the part and the place."""
    torch.manual_seed(seed)
    if not is_user_workload(name):
        return WORKLOADS.load(name)(size)
    path, _, factory_name = name.rpartition(":")
    if not path.endswith(".py") or not factory_name.isidentifier():
        raise WorkloadError(f"--workload {name!r}: expected a built-in name or path.py:FACTORY")
    factory = getattr(_import_file(Path(path)), factory_name, None)
    if not callable(factory):
        raise WorkloadError(f"--workload: {path} has no function {factory_name!r}")
    return as_workload(_call(factory, name, {"size": size, "seed": seed}), name)


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn what a user's own code raises during training into one sentence with its line."""
    try:
        yield
    except (HarnessError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # a user's model can raise anything; ours keeps its traceback
        path = Path(name.rpartition(":")[0])
        if not is_user_workload(name) or not _passes_through(error, path):
            raise
        raise WorkloadError(f"{name}: {_where(error, path)}") from error


def data_hash(workload: Workload) -> str:
    """Return 12 hex digits over training and validation data, independent of the run's seed."""
    sha = hashlib.sha256()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for dataset in (workload.train_data, workload.val_data):
            sha.update(str(size_of(dataset)).encode())
            for value in _hashed_values(dataset):
                sha.update(value)
    return sha.hexdigest()[:12]


def _import_file(path: Path) -> ModuleType:
    path = path.expanduser().resolve()
    if not path.is_file():
        raise WorkloadError(f"--workload: no file {path}")
    spec = importlib.util.spec_from_file_location(f"user_workload_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except HarnessError:
        raise
    except Exception as error:  # a user's file can raise anything: his mistake, told in one sentence
        raise WorkloadError(f"--workload: {path} cannot be imported: {_where(error, path)}") from error
    return module


def _call(factory: Callable[..., Any], name: str, offered: dict[str, Any]) -> Any:
    """Call a factory with those of ``size`` and ``seed`` that it takes."""
    parameters = inspect.signature(factory).parameters
    accepted = {key: value for key, value in offered.items() if key in parameters}
    needed = [
        p.name
        for p in parameters.values()
        if p.default is p.empty and p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY}
    ]
    unknown = [key for key in needed if key not in accepted]
    if unknown:
        raise WorkloadError(f"{name}: the factory needs {', '.join(unknown)}; it may take 'size' and 'seed' only")
    try:
        return factory(**accepted)
    except HarnessError as error:
        raise WorkloadError(f"{name}: {error}") from error
    except Exception as error:  # a user's factory can raise anything: his mistake, told in one sentence
        raise WorkloadError(f"{name}: the factory failed: {_where(error, Path(name.rpartition(':')[0]))}") from error


def _where(error: Exception, path: Path) -> str:
    """Say what was raised and the last line of the user's own file that was involved."""
    lines = _lines(error, path)
    line = lines[-1] if lines else getattr(error, "lineno", None)
    return f"{type(error).__name__}: {error}" + (f" ({path.name}, line {line})" if line else "")


def _lines(error: Exception, path: Path) -> list[int]:
    frames = traceback.extract_tb(error.__traceback__)
    return [frame.lineno or 0 for frame in frames if Path(frame.filename).name == path.name]


def _passes_through(error: Exception, path: Path) -> bool:
    return bool(_lines(error, path))


def _hashed_values(dataset: Any) -> list[bytes]:
    if isinstance(dataset, TensorPairs):
        return [_raw(dataset.inputs), _raw(dataset.targets)]
    step = max(1, len(dataset) // HASHED_SAMPLES)
    return [_raw(dataset[index]) for index in range(0, len(dataset), step)]


def _raw(value: Any) -> bytes:
    if isinstance(value, Tensor):
        return value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    if isinstance(value, (tuple, list)):
        return b"".join(_raw(item) for item in value)
    if isinstance(value, dict):
        return b"".join(str(key).encode() + _raw(value[key]) for key in value)
    return repr(value).encode()
