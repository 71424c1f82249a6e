"""A stand-in for the pynvml module: GPUs in any condition, on a host that has none.

FakeNvml([h100()])                            one healthy card
FakeNvml([h100(0, ecc=2), h100(1)])           the first one has memory errors
FakeNvml([h100(mig=[mig_slice(0), mig_slice(1)])])
FakeNvml([], init_error=DRIVER_NOT_LOADED)    no driver
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

GIB = 2**30
IDLE, APPLICATION_CLOCKS, POWER_CAP, HW_SLOWDOWN, SW_THERMAL, HW_THERMAL = 0x1, 0x2, 0x4, 0x8, 0x20, 0x40
NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, GPU_IS_LOST = 3, 4, 6, 9, 12, 15
_ERRORS = {
    NOT_SUPPORTED: "Not Supported",
    NO_PERMISSION: "Insufficient Permissions",
    NOT_FOUND: "Not Found",
    DRIVER_NOT_LOADED: "Driver Not Loaded",
    LIBRARY_NOT_FOUND: "NVML Shared Library Not Found",
    GPU_IS_LOST: "GPU is lost",
}


class NVMLError(Exception):
    """As in pynvml: a number and its text."""

    def __init__(self, value: int) -> None:
        self.value = value
        super().__init__(_ERRORS[value])


@dataclass(frozen=True, kw_only=True)
class FakeGpu:
    """One card, or one MIG instance of a card; every field is what NVML would answer."""

    name: str = "NVIDIA H100 80GB HBM3"
    uuid: str = "GPU-00000000-1111-2222-3333-444444444444"
    total: int = 80 * GIB
    used: int = 4 * 2**20
    ecc: int = 0
    remap_pending: bool = False
    remap_failed: bool = False
    throttle: int = IDLE
    temperature: int = 34
    sm_clock: int = 345
    sm_clock_max: int = 1980
    utilisation: int = 0
    power_mw: int = 71_500
    power_limit_mw: int = 700_000
    processes: dict[int, int | None] = field(default_factory=dict)
    """pid -> bytes of the programs with a CUDA context."""
    desktop: dict[int, int | None] = field(default_factory=dict)
    """pid -> bytes of the programs that draw."""
    mig: list[FakeGpu] | None = None
    bus_id: str = "00000000:17:00.0"
    nvlinks: list[str] = field(default_factory=list)
    """The far end of each active NVLink: a bus id, or ``switch``."""
    unsupported: frozenset[str] = frozenset()
    """Names of NVML functions that answer Not Supported; ``*`` is all of them."""
    lost: bool = False
    """Not even a handle can be had."""
    lost_later: bool = False
    """A handle can be had, and every question about it fails."""
    hidden: bool = False
    """Counted, but not for this container or job."""


def h100(number: int = 0, **condition: Any) -> FakeGpu:
    """Return a healthy H100 with its own UUID and bus id, changed by ``condition``."""
    card = FakeGpu(uuid=f"GPU-{number}0000000-1111-2222-3333-444444444444", bus_id=f"00000000:{number}7:00.0")
    return replace(card, **condition)


def mig_slice(number: int, **condition: Any) -> FakeGpu:
    """Return one MIG instance."""
    uuid = f"MIG-{number}aaaaaaa-1111-2222-3333-444444444444"
    return replace(FakeGpu(name="NVIDIA H100 80GB HBM3 MIG 1g.10gb", uuid=uuid, total=10 * GIB), **condition)


def _processes(sizes: dict[int, int | None]) -> list[SimpleNamespace]:
    return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in sizes.items()]


def _slot(gpu: FakeGpu, slot: int) -> FakeGpu:
    """MIG slots have gaps: instances sit in the even ones here."""
    instances = dict(enumerate(gpu.mig or []))
    if slot % 2 or slot // 2 not in instances:
        raise NVMLError(NOT_FOUND)
    return instances[slot // 2]


_PER_INSTANCE = ("Name", "UUID", "MemoryInfo", "ComputeRunningProcesses", "GraphicsRunningProcesses")
"""What NVML answers about a MIG instance; the rest it knows of whole cards only."""

QUESTIONS: dict[str, Callable[..., Any]] = {
    "Name": lambda gpu: gpu.name,
    "UUID": lambda gpu: gpu.uuid,
    "MemoryInfo": lambda gpu, version=None: SimpleNamespace(total=gpu.total, used=gpu.used),
    "TotalEccErrors": lambda gpu, kind, counter: gpu.ecc,
    "RemappedRows": lambda gpu: (0, 0, int(gpu.remap_pending), int(gpu.remap_failed)),
    "RetiredPagesPendingStatus": lambda gpu: int(gpu.remap_pending),
    "CurrentClocksEventReasons": lambda gpu: gpu.throttle,
    "CurrentClocksThrottleReasons": lambda gpu: gpu.throttle,
    "Temperature": lambda gpu, sensor: gpu.temperature,
    "ClockInfo": lambda gpu, kind: gpu.sm_clock,
    "MaxClockInfo": lambda gpu, kind: gpu.sm_clock_max,
    "UtilizationRates": lambda gpu: SimpleNamespace(gpu=gpu.utilisation, memory=0),
    "PowerUsage": lambda gpu: gpu.power_mw,
    "EnforcedPowerLimit": lambda gpu: gpu.power_limit_mw,
    "ComputeRunningProcesses": lambda gpu: _processes(gpu.processes),
    "GraphicsRunningProcesses": lambda gpu: _processes(gpu.desktop),
    "PciInfo": lambda gpu: SimpleNamespace(busId=gpu.bus_id),
    "MigMode": lambda gpu: [int(gpu.mig is not None)] * 2,
    "MaxMigDeviceCount": lambda gpu: 7 if gpu.mig else 0,
    "MigDeviceHandleByIndex": _slot,
    "NvLinkState": lambda gpu, link: int(link < len(gpu.nvlinks)),
    "NvLinkRemoteDeviceType": lambda gpu, link: 2 if gpu.nvlinks[link] == "switch" else 0,
    "NvLinkRemotePciInfo": lambda gpu, link: SimpleNamespace(busId=gpu.nvlinks[link]),
    "TopologyCommonAncestor": lambda gpu, other: 50,
}


class FakeNvml:
    """Has the functions and constants of pynvml that the harness uses; a handle is the FakeGpu itself."""

    NVMLError = NVMLError
    NVML_ERROR_NO_PERMISSION = NO_PERMISSION
    NVML_NVLINK_MAX_LINKS = 18
    nvmlMemory_v2 = 0x02000028  # noqa: N815 - the name that pynvml gives it

    def __init__(self, gpus: list[FakeGpu], *, init_error: int | None = None) -> None:
        self.gpus = gpus
        self.init_error = init_error
        self.open_count = 0

    def __getattr__(self, name: str) -> Any:
        """Return ``nvmlDeviceGet<question>`` or one of the few functions about the whole host."""
        host = {
            "nvmlInit": self._init,
            "nvmlShutdown": self._shutdown,
            "nvmlSystemGetDriverVersion": lambda: "580.159.03",
            "nvmlSystemGetCudaDriverVersion": lambda: 13000,
            "nvmlDeviceGetCount": lambda: len(self.gpus),
            "nvmlDeviceGetHandleByIndex": self._handle,
        }
        question = name.removeprefix("nvmlDeviceGet")
        if name in host:
            return host[name]
        if name == question or question not in QUESTIONS:
            raise AttributeError(name)
        return partial(_answer, name, question)

    def _init(self) -> None:
        if self.init_error is not None:
            raise NVMLError(self.init_error)
        self.open_count += 1

    def _shutdown(self) -> None:
        self.open_count -= 1

    def _handle(self, index: int) -> FakeGpu:
        if self.gpus[index].hidden:
            raise NVMLError(NO_PERMISSION)
        if self.gpus[index].lost:
            raise NVMLError(GPU_IS_LOST)
        return self.gpus[index]


def _answer(name: str, question: str, gpu: FakeGpu, *args: Any) -> Any:
    if gpu.uuid.startswith("MIG-") and question not in _PER_INSTANCE:
        raise NVMLError(NOT_SUPPORTED)
    if name in gpu.unsupported or "*" in gpu.unsupported:
        raise NVMLError(NOT_SUPPORTED)
    if gpu.lost_later:
        raise NVMLError(GPU_IS_LOST)
    return QUESTIONS[question](gpu, *args)
