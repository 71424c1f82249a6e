"""Which workload does a spec name? A built-in one, or the user's own ``path.py:FACTORY``."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness.engine.blame import is_users, where
from harness.engine.ending import is_out_of_memory
from harness.engine.generators import seed_all, set_aside
from harness.errors import HarnessError, WorkloadError
from harness.registry import Registry
from harness.workloads.base import TensorPairs, Workload, as_workload, size_of

WORKLOADS: Registry[Callable[[str], Workload]] = Registry("workload", "harness.workloads", "build")

HASHED_SAMPLES = 256
"""Samples of a user's dataset that enter the data hash, evenly spaced; our own are hashed whole."""


def is_user_workload(name: str) -> bool:
    """Tell whether a workload name is ``path.py:FACTORY``."""
    return ".py" in name or "/" in name


def file_of(name: str) -> Path | None:
    """Return the file of a user's workload, None for a built-in one."""
    return Path(name.rpartition(":")[0]).expanduser().resolve() if is_user_workload(name) else None


def load_workload(name: str, size: str, seed: int) -> Workload:
    """Build the workload with torch's generators seeded; every failure names the part and the place."""
    seed_all(seed)
    if not is_user_workload(name):
        return WORKLOADS.load(name)(size)
    path, _, factory_name = name.rpartition(":")
    if not path.endswith(".py") or not factory_name.isidentifier():
        raise WorkloadError(f"--workload {name!r}: expected a built-in name or path.py:FACTORY")
    factory = getattr(_import_file(Path(path).expanduser().resolve()), factory_name, None)
    if not callable(factory):
        raise WorkloadError(f"--workload: {path} has no function {factory_name!r}")
    return as_workload(_call(factory, name, {"size": size, "seed": seed}), name)


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn what a user's own code raises during training into one sentence with its line."""
    try:
        yield
    except WorkloadError as error:
        told = str(error)
        raise WorkloadError(told if name in told or told.startswith("--") else f"{name}: {told}") from error
    except HarnessError:
        raise
    except (Exception, SystemExit) as error:  # a user's model can raise anything; ours keeps its traceback
        path = file_of(name)
        if path is None or is_out_of_memory(error) or not is_users(error, path):
            raise
        raise WorkloadError(f"{name}: {where(error, path)}") from error


def source_hash(name: str) -> str:
    """Return 12 hex digits over the file of a user's workload; a built-in one is part of the program."""
    if not is_user_workload(name):
        return "built-in"
    return hashlib.sha256(Path(name.rpartition(":")[0]).expanduser().read_bytes()).hexdigest()[:12]


def data_hash(workload: Workload) -> str:
    """Return 12 hex digits over training and validation data, independent of the run's seed."""
    sha = hashlib.sha256()
    with set_aside(0):
        for dataset in (workload.train_data, workload.val_data):
            sha.update(str(size_of(dataset)).encode())
            for value in _hashed_values(dataset):
                sha.update(value)
    return sha.hexdigest()[:12]


def _import_file(path: Path) -> ModuleType:
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
    except (Exception, SystemExit) as error:  # a user's file can raise anything: his mistake, told in one sentence
        raise WorkloadError(f"--workload: {path} cannot be imported: {where(error, path)}") from error
    return module


def _call(factory: Callable[..., Any], name: str, offered: dict[str, Any]) -> Any:
    """Call a factory with those of ``size`` and ``seed`` that it takes."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError) as error:
        raise WorkloadError(f"{name}: the factory must be a function of nothing, 'size' or 'seed': {error}") from error
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
    except (Exception, SystemExit) as error:  # a user's factory can raise anything: his mistake, told in one sentence
        if is_out_of_memory(error):
            raise
        path = Path(name.rpartition(":")[0]).expanduser().resolve()
        raise WorkloadError(f"{name}: the factory failed: {where(error, path)}") from error


def _hashed_values(dataset: Any) -> list[bytes]:
    if isinstance(dataset, TensorPairs):
        return [_raw(dataset.inputs), _raw(dataset.targets)]
    step = max(1, len(dataset) // HASHED_SAMPLES)
    return [_raw(dataset[index]) for index in range(0, len(dataset), step)]


def _raw(value: Any) -> bytes:
    if isinstance(value, Tensor):
        plain = value.detach().cpu()
        dense = plain if plain.layout == torch.strided else plain.to_dense()
        return dense.contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, (tuple, list)):
        return b"".join(_raw(item) for item in value)
    if isinstance(value, Mapping):
        return b"".join(str(key).encode() + _raw(value[key]) for key in value)
    return repr(value).encode()
