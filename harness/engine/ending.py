"""How did a run end? An exception becomes a state; a time limit becomes an exception."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

import torch
import torch.distributed as dist

from harness.errors import DeviceError, HarnessError, UsageError
from harness.observe.recorder import OutputClosedError, complain
from harness.runs import LOST

EXIT_CODES = {"completed": 0, "diverged": 1, "oom": 1, "error": 1, "refused": 2, "timeout": 124, "interrupted": 130}
"""State of a run -> exit code of its process."""

NO_MEMORY = ("can't allocate memory", "Cannot allocate memory", "out of memory", "bad_alloc", "unable to mmap")
"""What torch's allocators, the C++ library and the kernel say about a failed allocation."""


class DivergedError(HarnessError):
    """The loss stayed non-finite."""


class OutOfTimeError(BaseException):
    """The run's time limit passed.

    Raised by a signal, so it can come up inside anything: not an Exception, which an observer's or a
    user's guard would swallow.
    """


class LostRankError(HarnessError):
    """Another rank left in the middle of the run: its records say why."""


def explained_loss(error: BaseException) -> BaseException:
    """Return a LostRankError for an error of the connection to another rank, anything else as it is."""
    if isinstance(error, (dist.DistBackendError, dist.DistNetworkError)) or "gloo/transport/" in str(error):
        return LostRankError(f"{LOST}: {error}")
    return error


def state_of(error: BaseException) -> str:
    """Return the state that an exception leaves a run in."""
    if isinstance(error, (KeyboardInterrupt, OutputClosedError)):
        return "interrupted"
    if isinstance(error, DivergedError):
        return "diverged"
    if isinstance(error, OutOfTimeError):
        return "timeout"
    if isinstance(error, (UsageError, DeviceError)):
        return "refused"
    return "oom" if is_out_of_memory(error) else "error"


def is_out_of_memory(error: BaseException) -> bool:
    """Tell a failed allocation from other errors."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, (RuntimeError, OSError)) and any(sign in str(error) for sign in NO_MEMORY)


def run_to_end(run: Callable[[], int]) -> NoReturn:
    """Run one rank and end its process with the exit code of ``run``; what it raises belongs into its own output."""
    code = 1
    try:
        code = run()
    except HarnessError as error:  # it could not even begin to record
        complain(str(error))
        code = error.exit_code
    except BaseException:  # the process boundary: our own bug keeps its traceback
        sys.excepthook(*sys.exc_info())
    finally:
        end_process(code)


def end_process(code: int) -> NoReturn:
    """Flush what was printed and end the process at once: a rank that tears its process group down can hang."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


@contextmanager
def alarm(limit_s: float) -> Iterator[None]:
    """Raise OutOfTimeError in what runs inside once ``limit_s`` have passed, wherever it is; 0 sets no limit.

    Works in the main thread alone: Python runs signal handlers nowhere else.
    """
    if not limit_s or threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(_number: int, _frame: FrameType | None) -> None:
        raise OutOfTimeError(f"the time limit of {limit_s:g} s passed")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
