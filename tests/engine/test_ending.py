"""Each exception leaves a run in one state, and a time limit is an exception."""

from __future__ import annotations

import signal
import threading
import time

import pytest
import torch
import torch.distributed as dist

from harness.engine.ending import (
    EXIT_CODES,
    DivergedError,
    LostRankError,
    OutOfTimeError,
    alarm,
    explained_loss,
    state_of,
)
from harness.errors import DeviceError, HarnessError, UsageError, WorkloadError
from harness.observe.recorder import OutputClosedError
from harness.runs import ORDER


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (KeyboardInterrupt(), "interrupted"),
        (OutputClosedError("head"), "interrupted"),
        (DivergedError("nan"), "diverged"),
        (OutOfTimeError("late"), "timeout"),
        (UsageError("wrong"), "refused"),
        (WorkloadError("wrong"), "refused"),
        (DeviceError("no GPU"), "refused"),
        (MemoryError(), "oom"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), "oom"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), "oom"),
        (RuntimeError("CUDA error: out of memory"), "oom"),
        (RuntimeError("std::bad_alloc"), "oom"),
        (OSError(12, "Cannot allocate memory"), "oom"),
        (ValueError("we ran out of memory of the past"), "error"),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), "error"),
        (HarnessError("disk full"), "error"),
        (SystemExit(0), "error"),
        (AssertionError(), "error"),
    ],
)
def test_exception_becomes_a_state(error: BaseException, state: str) -> None:
    """What a user reads first."""
    assert state_of(error) == state


def test_each_state_of_a_rank_has_an_exit_code() -> None:
    """Only a completed run exits with 0; a rank that died cannot choose."""
    assert set(EXIT_CODES) | {"died"} == set(ORDER)
    assert [state for state, code in EXIT_CODES.items() if code == 0] == ["completed"]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]:5"),
        dist.DistBackendError("NCCL communicator was aborted"),
        dist.DistNetworkError("The client socket has timed out"),
    ],
    ids=["gloo", "nccl", "store"],
)
def test_broken_connection_is_a_lost_rank(error: BaseException) -> None:
    """Its own records say why it left."""
    lost = explained_loss(error)
    assert isinstance(lost, LostRankError)
    assert str(lost).startswith("lost another rank: ")


def test_other_error_stays_what_it_is() -> None:
    """Only connections are explained."""
    error = RuntimeError("Connection to reality lost")
    assert explained_loss(error) is error


@pytest.mark.parametrize("busy", [True, False])
def test_alarm_ends_what_sleeps_and_what_is_busy(busy: bool) -> None:
    """Wherever it is."""

    def work() -> None:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            time.sleep(0 if busy else 30)

    with pytest.raises(OutOfTimeError, match=r"the time limit of 0\.05 s passed"), alarm(0.05):
        work()


def test_alarm_is_put_back() -> None:
    """Neither the timer nor the handler stays, whether it rang or not."""
    before = signal.getsignal(signal.SIGALRM)
    with alarm(50):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before


def test_no_limit_is_no_alarm() -> None:
    """Somebody else's timer is left alone."""
    with alarm(0):
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_alarm_outside_the_main_thread_is_none() -> None:
    """Python could not run its handler there; the loop still looks at the time."""
    done = []

    def run() -> None:
        with alarm(5):
            done.append(signal.getitimer(signal.ITIMER_REAL))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert done == [(0.0, 0.0)]
