"""Where was this measured? A fingerprint of hardware, software and code, without the host's name.

Nothing here imports torch: versions come from it when the process has it already, and otherwise
from the metadata of the installed packages, cut to the same number of digits.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from harness.observe.canonical import digest, plain

PROJECT = Path(__file__).resolve().parents[2]

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
)

GIT_TIME_LIMIT_S = 20
"""Origin: ``git status`` of a tree of this size takes well below a second, also on a network file system."""

WHEELS = {
    "cuda": ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu13", "nvidia-cuda-runtime-cu12"),
    "cudnn": ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"),
    "nccl": ("nvidia-nccl-cu13", "nvidia-nccl-cu12"),
}
"""The packages that hold the libraries of a torch wheel."""

DIGITS = {"cuda": 2, "cudnn": 3, "nccl": 3}
"""How many parts of a version torch itself reports."""

CUDNN_9 = 90_000
"""Source: cudnn_version.h; version 9 went from 1000 to 10000 for each major version."""


def fingerprint() -> dict[str, Any]:
    """Return the description of this machine and this code; what cannot be found out is None."""
    return {
        "cpu": _cpu_model(),
        "cores_available": len(os.sched_getaffinity(0)),
        "memory_gib": _memory_gib(),
        "gpus": _gpu_models(),
        "driver": _driver(),
        "os": platform.platform(),
        "python": platform.python_version(),
        "torch": _package("torch"),
        "numpy": _package("numpy"),
        **_gpu_libraries(),
        **_git(PROJECT),
        "thread_variables": {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
    }


def fingerprint_id(fingerprint: dict[str, Any]) -> str:
    """Return 12 hex digits that are equal for equal fingerprints."""
    return digest(plain(fingerprint))[:12]


def _cpu_model() -> str:
    for line in _text(Path("/proc/cpuinfo")).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _memory_gib() -> float:
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)


def _gpu_models() -> list[str]:
    # The driver's own list: asking torch would create a CUDA context, and a process that has one cannot fork workers.
    lines = (line for path in _gpu_files() for line in _text(path).splitlines())
    return [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]


def _gpu_files() -> list[Path]:
    return sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))


def _driver() -> str | None:
    return _text(Path("/sys/module/nvidia/version")).strip() or None


def _package(name: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None


def _gpu_libraries() -> dict[str, str | None]:
    torch = sys.modules.get("torch")
    if torch is None:
        return {name: _short(_first_package(WHEELS[name]), DIGITS[name]) for name in WHEELS}
    return {"cuda": torch.version.cuda, "cudnn": _cudnn(torch.backends.cudnn.version()), "nccl": _nccl(torch)}


def _first_package(names: tuple[str, ...]) -> str | None:
    return next((version for version in map(_package, names) if version), None)


def _short(version: str | None, digits: int) -> str | None:
    return ".".join(version.split(".")[:digits]) if version else None


def _cudnn(number: int | None) -> str | None:
    """Return 91002 as 9.10.2, and 8907, in the form before version 9, as 8.9.7."""
    if number is None:
        return None
    major = 10_000 if number >= CUDNN_9 else 1_000
    return f"{number // major}.{number % major // 100}.{number % 100}"


def _nccl(torch: Any) -> str | None:
    if torch.version.cuda is None or not torch.distributed.is_available() or not torch.distributed.is_nccl_available():
        return None
    return ".".join(str(part) for part in torch.cuda.nccl.version()[:3])


def _git(folder: Path) -> dict[str, Any]:
    """Return commit and dirty flag of ``folder``; None for both when it is not itself the top of a checkout."""
    top, _, commit = (_git_says(folder, "rev-parse", "--show-toplevel", "HEAD") or "").strip().partition("\n")
    if not commit or Path(top).resolve() != folder.resolve():
        return {"git_commit": None, "git_dirty": None}
    changes = _git_says(folder, "status", "--porcelain")
    return {"git_commit": commit, "git_dirty": None if changes is None else bool(changes.strip())}


def _git_says(folder: Path, *words: str) -> str | None:
    # Variables such as GIT_DIR, which git sets inside its hooks, would point at another checkout.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "--no-optional-locks", "-C", str(folder), *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=GIT_TIME_LIMIT_S, env=clean, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
