"""Who may measure on a device now? Exclusive leases, across processes and sessions of one host.

One ``flock`` per device, keyed by the UUID of the GPU or MIG instance, or by ``cpu`` for the host as a whole. All
devices of a lease are taken at once behind one queue lock, so two processes that ask for overlapping sets never wait
for each other. The kernel frees the lock of a process that dies, and a child inherits none.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal

from harness.errors import DeviceError, UsageError
from harness.observe.nvml import Nvml, open_nvml, visible_gpus

LeaseKind = Literal["cuda", "cpu", "emulated"]

FOLDER_VARIABLE = "GPU_EXAM_LEASE_DIR"
POLL_S = 0.02
"""Origin: far below the shortest run (about 0.1 s), and 50 system calls a second are not measurable."""

_QUEUE = "queue"
_held: set[int] = set()
"""Descriptors of the locks of this process."""


@contextmanager
def lease(
    count: int,
    kind: LeaseKind,
    timeout_s: float,
    *,
    environ: Mapping[str, str] | None = None,
    nvml: Nvml | None = None,
) -> Iterator[list[str]]:
    """Hold ``count`` devices exclusively; yield what to put into CUDA_VISIBLE_DEVICES, joined by commas.

    ``cuda`` takes the first free devices of the caller's CUDA_VISIBLE_DEVICES. ``cpu`` and ``emulated`` take the whole
    host whatever the count, because their ranks share its cores, and yield an empty list: such a run sees no GPU.
    Raises DeviceError at once for more devices than there are, and after ``timeout_s`` seconds with the process id of
    the holder.
    """
    environ = os.environ if environ is None else environ
    pool = _pool(count, kind, environ, nvml)
    folder = lease_folder(environ)
    needed = count if kind == "cuda" else 1
    locks = _take(folder, pool, needed, timeout_s)
    try:
        yield list(locks) if kind == "cuda" else []
    finally:
        _unlock_all(locks)


def lease_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the lock files, made when missing; DeviceError when it belongs to somebody else."""
    default = Path(tempfile.gettempdir()) / f"gpu-exam-leases-{os.getuid()}"
    folder = Path(environ.get(FOLDER_VARIABLE) or default)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise DeviceError(f"{folder}: cannot hold device leases: {error.strerror}; set {FOLDER_VARIABLE}") from error
    # A folder or link that somebody else prepared in /tmp could block us, or have us write where he wants.
    if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode):
        raise DeviceError(
            f"{folder}: cannot hold device leases: not a folder of user {os.getuid()} "
            f"(owner {status.st_uid}); set {FOLDER_VARIABLE} to a folder of your own"
        )
    return folder


def usable_cores() -> int:
    """Return the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pool(count: int, kind: LeaseKind, environ: Mapping[str, str], nvml: Nvml | None) -> list[str]:
    """Return the names to choose from, after refusing what cannot be had."""
    if count < 1:
        raise UsageError(f"{count} devices asked for; at least 1 is accepted")
    if kind == "cuda":
        return _gpu_pool(count, environ, nvml)
    if kind == "cpu" and count > usable_cores():
        raise DeviceError(
            f"{count} devices of kind cpu asked for, one core each, and this process may use {usable_cores()}; "
            f"ask for at most {usable_cores()} with --devices"
        )
    return ["cpu"]


def _gpu_pool(count: int, environ: Mapping[str, str], nvml: Nvml | None) -> list[str]:
    if nvml is None:
        with closing(open_nvml()) as opened:
            return _gpu_pool(count, environ, opened)
    gpus = [gpu for gpu in visible_gpus(environ, nvml) if gpu.uuid]
    if count > len(gpus):
        there = ", ".join(f"{gpu.name} ({gpu.uuid})" for gpu in gpus)
        why = there or nvml.reason or "this host has no GPU, or CUDA_VISIBLE_DEVICES hides it"
        raise DeviceError(f"{count} of kind cuda asked for, {len(gpus)} visible: {why}")
    return [gpu.uuid for gpu in gpus]


def _take(folder: Path, pool: list[str], count: int, timeout_s: float) -> dict[str, int]:
    """Lock ``count`` names of the pool. Only the holder of the queue lock tries, so no two ever hold a part each."""
    deadline = time.monotonic() + timeout_s
    queue: dict[str, int] = {}
    try:
        while True:
            queue = queue or _lock_all(folder, [_QUEUE], 1)
            locks = _lock_all(folder, pool, count) if queue else {}
            if locks:
                return locks
            if time.monotonic() >= deadline:
                raise DeviceError(
                    f"waited {timeout_s:g} s for {count} of {len(pool)} devices: {_holders(folder, pool)}"
                )
            time.sleep(POLL_S)
    finally:
        _unlock_all(queue)


def _lock_all(folder: Path, names: list[str], count: int) -> dict[str, int]:
    """Return name -> descriptor of the first ``count`` free names, or nothing when there are fewer."""
    locks: dict[str, int] = {}
    for name in names:
        descriptor = _try_lock(_lock_file(folder, name))
        if descriptor is not None:
            locks[name] = descriptor
        if len(locks) == count:
            return locks
    _unlock_all(locks)
    return {}


def _try_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    _held.add(descriptor)
    # The number is for the messages of others; a full disk does not weaken the lock.
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
    return descriptor


def _unlock_all(locks: Mapping[str, int]) -> None:
    """Let go. The file stays: removing it would let two processes lock two files of one name."""
    for descriptor in _held.intersection(locks.values()):
        _held.discard(descriptor)
        os.ftruncate(descriptor, 0)
        os.close(descriptor)


def _holders(folder: Path, names: list[str]) -> str:
    """Say which process holds which name, as far as the lock files tell."""
    pids = {name: _pid(_lock_file(folder, name)) for name in [*names, _QUEUE]}
    held = [f"{name} is held by process {pid}" for name, pid in pids.items() if pid and name != _QUEUE]
    waiting = pids[_QUEUE] not in {"", str(os.getpid())}
    return "; ".join([*held, *[f"process {pids[_QUEUE]} is next in the queue"] * waiting])


def _pid(path: Path) -> str:
    return path.read_text(encoding="ascii") if path.exists() else ""


def _lock_file(folder: Path, name: str) -> Path:
    # The older form of a MIG id holds slashes.
    return folder / (re.sub(r"[^A-Za-z0-9-]", "_", name) + ".lock")


def _forget_inherited() -> None:
    """A forked child shares its parent's locks; closing its copies leaves them to the parent alone."""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_forget_inherited)
