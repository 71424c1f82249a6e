"""A leased device has one user at a time, whatever happens to the processes that ask."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.devices.leases import FOLDER_VARIABLE, lease, lease_folder, usable_cores
from harness.errors import DeviceError, UsageError
from harness.observe.nvml import Nvml, open_nvml
from tests.fakes.fake_nvml import DRIVER_NOT_LOADED, FakeNvml, h100, mig_slice

ROOT = Path(__file__).parents[2]
GPUS = [h100(number).uuid for number in range(4)]

HOLD = """
import sys, time
from harness.devices.leases import lease
from harness.observe.nvml import open_nvml
from tests.fakes.fake_nvml import FakeNvml, h100
count, kind, hold_s = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
with lease(count, kind, 30, nvml=open_nvml(FakeNvml([h100(n) for n in range(4)]))) as devices:
    print("held", *devices, flush=True)
    time.sleep(hold_s)
"""

OVERLAP = """
import os, sys, time
from pathlib import Path
from harness.devices.leases import lease
from harness.observe.nvml import open_nvml
from tests.fakes.fake_nvml import FakeNvml, h100
nvml = open_nvml(FakeNvml([h100(n) for n in range(4)]))
for _ in range(20):
    with lease(int(sys.argv[1]), "cuda", 30, nvml=nvml) as devices:
        for device in devices:
            os.close(os.open(Path(sys.argv[2]) / device, os.O_CREAT | os.O_EXCL))
        time.sleep(0.001)
        for device in devices:
            (Path(sys.argv[2]) / device).unlink()
"""


CHILDREN = """
import os, signal, subprocess, time
from harness.devices.leases import lease
with lease(1, "cpu", 0):
    started = subprocess.Popen(["sleep", "60"], close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    forked = os.fork()
    if forked == 0:
        time.sleep(60)
        os._exit(0)
    time.sleep(0.2)
with lease(1, "cpu", 0) as devices:
    print(devices)
started.kill()
os.kill(forked, signal.SIGKILL)
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment whose leases are this test's own."""
    return {**os.environ, FOLDER_VARIABLE: str(tmp_path / "leases"), "CUDA_VISIBLE_DEVICES": "0,1,2,3"}


@pytest.fixture
def nvml() -> Nvml:
    """A host with four GPUs."""
    return open_nvml(FakeNvml([h100(number) for number in range(4)]))


@pytest.fixture
def holder(environ: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the first two GPUs for as long as it lives."""
    process = start(HOLD, environ, "2", "cuda", "60")
    assert process.stdout is not None
    assert process.stdout.readline().split() == ["held", *GPUS[:2]]
    yield process
    process.kill()
    process.communicate()


def start(code: str, environ: dict[str, str], *args: str) -> subprocess.Popen[str]:
    """Start ``code`` in a process of its own."""
    command = [sys.executable, "-c", code, *args]
    return subprocess.Popen(command, env=environ, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_yields_uuids_in_the_callers_order(environ: dict[str, str], nvml: Nvml) -> None:
    """What is yielded goes into CUDA_VISIBLE_DEVICES: UUIDs, first free first."""
    environ["CUDA_VISIBLE_DEVICES"] = "2,0"
    with (
        lease(1, "cuda", 0, environ=environ, nvml=nvml) as first,
        lease(1, "cuda", 0, environ=environ, nvml=nvml) as second,
    ):
        assert (first, second) == ([GPUS[2]], [GPUS[0]])


def test_mig_instances_are_leased_apart(environ: dict[str, str]) -> None:
    """Two instances of one card are two devices, also with the older ids that hold slashes."""
    old = mig_slice(1, uuid="MIG-GPU-00000000-1111-2222-3333-444444444444/1/0")
    host = open_nvml(FakeNvml([h100(mig=[mig_slice(0), old])]))
    del environ["CUDA_VISIBLE_DEVICES"]
    with lease(2, "cuda", 0, environ=environ, nvml=host) as devices:
        assert devices == [mig_slice(0).uuid, old.uuid]


@pytest.mark.parametrize("kind", ["cpu", "emulated"])
def test_cores_are_one_device(environ: dict[str, str], kind: str) -> None:
    """Two runs on the cores of one host disturb each other, so the second waits; neither sees a GPU."""
    with lease(1, "cpu", 0, environ=environ) as devices:
        assert devices == []
        with (
            pytest.raises(DeviceError, match=f"cpu is held by process {os.getpid()}"),
            lease(1, kind, 0, environ=environ),  # type: ignore[arg-type]
        ):
            pass


def test_second_process_gets_the_other_devices(
    environ: dict[str, str], nvml: Nvml, holder: subprocess.Popen[str]
) -> None:
    """What another process holds is passed over, and is not to be had."""
    with lease(2, "cuda", 0, environ=environ, nvml=nvml) as devices:
        assert devices == GPUS[2:]
    with (
        pytest.raises(DeviceError, match=f"{GPUS[0]} is held by process {holder.pid}"),
        lease(3, "cuda", 0.05, environ=environ, nvml=nvml),
    ):
        pass


def test_refused_lease_keeps_nothing(environ: dict[str, str], nvml: Nvml, holder: subprocess.Popen[str]) -> None:
    """Who asked for three and could have two holds none of them afterwards."""
    assert holder.poll() is None
    with (
        pytest.raises(DeviceError, match="waited 0 s for 3 of 4 devices"),
        lease(3, "cuda", 0, environ=environ, nvml=nvml),
    ):
        pass
    with lease(2, "cuda", 0, environ=environ, nvml=nvml) as devices:
        assert devices == GPUS[2:]


def test_killed_holder_frees_its_devices(environ: dict[str, str], nvml: Nvml, holder: subprocess.Popen[str]) -> None:
    """A process that dies by kill -9 has no time to clean up, and does not have to."""
    holder.send_signal(signal.SIGKILL)
    with lease(4, "cuda", 10, environ=environ, nvml=nvml) as devices:
        assert devices == GPUS


def test_waiting_lease_gets_what_is_released(environ: dict[str, str], nvml: Nvml) -> None:
    """A lease that waits is served as soon as the holder is done."""
    process = start(HOLD, environ, "4", "cuda", "0.2")
    assert process.stdout is not None
    process.stdout.readline()
    with lease(4, "cuda", 30, environ=environ, nvml=nvml) as devices:
        assert devices == GPUS
    assert process.communicate() == ("", "")


def test_overlapping_sets_never_deadlock(environ: dict[str, str], tmp_path: Path) -> None:
    """Processes that ask for 2 and 3 of 4 devices in any order all finish, and no device ever has two users."""
    (tmp_path / "users").mkdir()
    orders = [("2", "0,1,2,3"), ("3", "3,2,1,0"), ("3", "1,2,3,0")]
    processes = [
        start(OVERLAP, {**environ, "CUDA_VISIBLE_DEVICES": order}, count, str(tmp_path / "users"))
        for count, order in orders
    ]
    assert [process.communicate(timeout=60) for process in processes] == [("", "")] * 3
    assert [process.returncode for process in processes] == [0, 0, 0]


def test_children_inherit_no_lease(environ: dict[str, str]) -> None:
    """A child that outlives the lease, forked or started, does not keep the device."""
    process = start(CHILDREN, environ)
    assert process.communicate(timeout=60) == ("[]\n", "")


def test_more_than_there_is(environ: dict[str, str], nvml: Nvml) -> None:
    """Too large a request is refused at once and says what there is."""
    environ["CUDA_VISIBLE_DEVICES"] = "1"
    with (
        pytest.raises(DeviceError, match=rf"2 of kind cuda asked for, 1 visible: NVIDIA H100 80GB HBM3 \({GPUS[1]}\)"),
        lease(2, "cuda", 60, environ=environ, nvml=nvml),
    ):
        pass


def test_no_gpu_says_why(environ: dict[str, str]) -> None:
    """Without a driver the refusal carries NVML's reason."""
    nothing = open_nvml(FakeNvml([], init_error=DRIVER_NOT_LOADED))
    with (
        pytest.raises(DeviceError, match="0 visible: the NVIDIA driver"),
        lease(1, "cuda", 0, environ=environ, nvml=nothing),
    ):
        pass


def test_more_ranks_than_cores(environ: dict[str, str]) -> None:
    """The cpu kind has one rank a core; the emulated kind sleeps and may have more."""
    ranks = usable_cores() + 1
    with (
        pytest.raises(DeviceError, match=f"at most {usable_cores()} with --devices"),
        lease(ranks, "cpu", 0, environ=environ),
    ):
        pass
    with lease(ranks, "emulated", 0, environ=environ) as devices:
        assert devices == []


def test_zero_devices(environ: dict[str, str]) -> None:
    """A lease of nothing is a mistake of the caller."""
    with pytest.raises(UsageError, match="at least 1"), lease(0, "cpu", 0, environ=environ):
        pass


def test_default_folder_is_private(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The default folder carries the user's number and nobody else can write there."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = lease_folder({})
    assert folder == tmp_path / f"gpu-exam-leases-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_folder_of_somebody_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder that another user prepared is refused."""
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(DeviceError, match=f"set {FOLDER_VARIABLE} to a folder of your own"):
        lease_folder({FOLDER_VARIABLE: str(tmp_path)})


def test_link_in_place_of_the_folder(tmp_path: Path) -> None:
    """A link that points elsewhere is refused, even our own."""
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(DeviceError, match="cannot hold device leases"):
        lease_folder({FOLDER_VARIABLE: str(tmp_path / "link")})
