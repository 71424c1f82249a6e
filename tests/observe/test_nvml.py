"""What NVML says about a GPU reaches the harness in words and units, and a missing answer is None."""

from __future__ import annotations

import os
import sys

import pytest

from harness.errors import UsageError
from harness.observe.gpu_state import GpuState
from harness.observe.nvml import NullNvml, open_nvml, visible_gpus
from tests.fakes.fake_nvml import (
    APPLICATION_CLOCKS,
    DRIVER_NOT_LOADED,
    GIB,
    HW_SLOWDOWN,
    HW_THERMAL,
    IDLE,
    POWER_CAP,
    SW_THERMAL,
    FakeGpu,
    FakeNvml,
    h100,
    mig_slice,
)


def states(*gpus: FakeGpu, **environ: str) -> list[GpuState]:
    """The visible devices of a host with these cards."""
    return visible_gpus(environ, open_nvml(FakeNvml(list(gpus))))


def test_healthy_card_in_units() -> None:
    """Memory is in bytes, clocks in MHz, power in watts, versions as people write them."""
    (gpu,) = states(h100())
    assert (gpu.memory_total_bytes, gpu.sm_clock_max_mhz, gpu.power_limit_w) == (80 * GIB, 1980, 700.0)
    assert (gpu.driver_version, gpu.cuda_driver_version) == ("580.159.03", "13.0")
    assert (gpu.ecc_uncorrected, gpu.row_remap_pending, gpu.error) == (0, False, "")


@pytest.mark.parametrize(
    ("bits", "reasons", "faults"),
    [
        (0, (), []),
        (IDLE, ("gpu idle",), []),
        (APPLICATION_CLOCKS | POWER_CAP, ("applications clocks setting", "sw power cap"), []),
        (SW_THERMAL, ("sw thermal slowdown",), ["sw thermal slowdown"]),
        (HW_SLOWDOWN | HW_THERMAL, ("hw slowdown", "hw thermal slowdown"), ["hw slowdown", "hw thermal slowdown"]),
        (0x80, ("hw power brake slowdown",), ["hw power brake slowdown"]),
        (0x8000, ("reason 0x8000",), []),
    ],
)
def test_throttle_reasons(bits: int, reasons: tuple[str, ...], faults: list[str]) -> None:
    """Each bit has its word, and only the slowdowns are faults."""
    (gpu,) = states(h100(throttle=bits))
    assert gpu.throttle_reasons == reasons
    assert gpu.throttle_faults == faults


def test_old_driver_has_throttle_reasons() -> None:
    """A driver that lacks the newer query is asked with the older one."""
    old = frozenset({"nvmlDeviceGetCurrentClocksEventReasons"})
    (gpu,) = states(h100(unsupported=old, throttle=HW_SLOWDOWN))
    assert gpu.throttle_faults == ["hw slowdown"]


def test_unsupported_queries_are_none() -> None:
    """A card that answers nothing at all still gives a state, with None in every place."""
    (gpu,) = states(h100(unsupported=frozenset({"*"})))
    assert gpu.ecc_uncorrected is None
    assert gpu.throttle_reasons is None
    assert gpu.other_pids is None
    assert (gpu.memory_used_bytes, gpu.power_w, gpu.temperature_c) == (None, None, None)


def test_pending_page_retirement_before_ampere() -> None:
    """A card without row remapping reports its pending page retirement in the same place."""
    volta = frozenset({"nvmlDeviceGetRemappedRows"})
    (gpu,) = states(h100(unsupported=volta, remap_pending=True))
    assert (gpu.row_remap_pending, gpu.row_remap_failed) == (True, None)


def test_other_processes_leave_this_one_out() -> None:
    """The processes of others are listed, our own is not."""
    (gpu,) = states(h100(processes={os.getpid(): GIB, 4242: 3 * GIB}, desktop={77: GIB, 4242: 3 * GIB}))
    assert gpu.other_pids == (4242,)
    assert gpu.memory_listed_bytes == 5 * GIB


def test_process_of_unknown_size() -> None:
    """One process whose memory is unknown makes the sum unknown, not smaller."""
    (gpu,) = states(h100(processes={4242: None}))
    assert gpu.memory_listed_bytes is None


@pytest.mark.parametrize("condition", ["lost", "lost_later"])
def test_lost_card_is_named(condition: str) -> None:
    """A card that fell off the bus is a state with its error, beside the healthy one, and has no known link."""
    nvml = open_nvml(FakeNvml([h100(0, **{condition: True}), h100(1)]))
    lost, healthy = nvml.gpus()
    assert (lost.name, lost.error) == ("a GPU that does not answer", "GPU is lost")
    assert (healthy.index, healthy.error) == (1, "")
    assert nvml.topology([lost, healthy])[0] == ["X", "?"]


def test_card_of_another_job_is_not_there() -> None:
    """A card that is counted and may not be used does not shift the numbers of CUDA."""
    (gpu,) = states(h100(0, hidden=True), h100(1))
    assert (gpu.index, gpu.uuid) == (0, h100(1).uuid)


def test_mig_instances_replace_their_card() -> None:
    """A card that is cut shows its instances, with the health of the card and their own memory."""
    first, second = states(h100(mig=[mig_slice(0), mig_slice(1, processes={4242: GIB})], ecc=3))
    assert (first.uuid, second.other_pids) == (mig_slice(0).uuid, (4242,))
    assert (first.parent_uuid, first.ecc_uncorrected, first.memory_total_bytes) == (h100().uuid, 3, 10 * GIB)
    assert first.utilisation_percent is None


@pytest.mark.parametrize(
    ("ends", "word"),
    [
        ((["00000000:17:00.0"] * 18, ["00000000:07:00.0"] * 18), "NV18"),
        ((["switch"] * 12, ["switch"] * 12), "NV12"),
        (([], []), "SYS"),
    ],
)
def test_topology_words(ends: tuple[list[str], list[str]], word: str) -> None:
    """Links are counted directly or through switches; without any, the PCI level is the answer."""
    nvml = open_nvml(FakeNvml([h100(0, nvlinks=ends[0]), h100(1, nvlinks=ends[1])]))
    assert nvml.topology(nvml.gpus()) == [["X", word], [word, "X"]]


def test_unknown_topology() -> None:
    """A host that does not tell has question marks, not an invented link."""
    mute = frozenset({"nvmlDeviceGetTopologyCommonAncestor"})
    nvml = open_nvml(FakeNvml([h100(0, unsupported=mute), h100(1, unsupported=mute)]))
    assert nvml.topology(nvml.gpus())[0] == ["X", "?"]


def test_no_driver_says_why() -> None:
    """Without a driver there is a null sampler with the reason in words."""
    nvml = open_nvml(FakeNvml([], init_error=DRIVER_NOT_LOADED))
    assert isinstance(nvml, NullNvml)
    assert nvml.reason == "the NVIDIA driver does not answer: Driver Not Loaded"
    assert (nvml.gpus(), nvml.topology([])) == ([], [])


def test_no_package_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pynvml there is a null sampler too, and it names the package."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "nvidia-ml-py is not installed" in open_nvml().reason
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "0"}) == []


def test_session_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking for the visible devices leaves no NVML session behind."""
    fake = FakeNvml([h100()])
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    assert len(visible_gpus({})) == 1
    assert fake.open_count == 0


@pytest.mark.parametrize(
    ("value", "positions"),
    [
        ("2,0", [2, 0]),
        ("1,", [1]),
        (" 1 , 2 ", [1, 2]),
        ("", []),
        ("NoDevFiles", []),
        ("-1", []),
        ("1,-1,0", [1]),
        (h100(2).uuid, [2]),
        ("GPU-2000", [2]),
        (f"1,{h100(0).uuid}", [1, 0]),
    ],
)
def test_cuda_visible_devices(value: str, positions: list[int]) -> None:
    """The variable chooses and orders as in CUDA: by number, by UUID or its beginning, and -1 ends the list."""
    cards = [h100(0), h100(1), h100(2)]
    seen = states(*cards, CUDA_VISIBLE_DEVICES=value)
    assert [gpu.uuid for gpu in seen] == [cards[position].uuid for position in positions]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("7", "there is no GPU '7' on this host; there are: 0 "),
        ("GPU-zzz", "there is no GPU 'GPU-zzz'"),
        ("gpu0", "there is no GPU 'gpu0'"),
        ("0,,1", "there is no GPU ''"),
        ("0,0", "'0' names a GPU that the list already has"),
        ("GPU-", "'GPU-' fits more than one GPU"),
    ],
)
def test_wrong_visible_devices(value: str, sentence: str) -> None:
    """What CUDA would silently skip is one clear sentence here."""
    with pytest.raises(UsageError, match=sentence):
        states(h100(0), h100(1), CUDA_VISIBLE_DEVICES=value)


@pytest.mark.parametrize("entry", ["MIG-1aaa", mig_slice(1).uuid])
def test_visible_mig_instance(entry: str) -> None:
    """An instance is named by its id; the id of the whole card, or its number, means the first instance."""
    card = h100(mig=[mig_slice(0), mig_slice(1)])
    assert states(card, CUDA_VISIBLE_DEVICES=entry)[0].uuid == mig_slice(1).uuid
    assert states(card, CUDA_VISIBLE_DEVICES=card.uuid)[0].uuid == mig_slice(0).uuid
    assert states(card, CUDA_VISIBLE_DEVICES="0")[0].uuid == mig_slice(0).uuid


def test_numbers_among_different_cards() -> None:
    """CUDA and NVML count different cards differently, so a number needs CUDA_DEVICE_ORDER."""
    cards = [h100(0), h100(1, name="NVIDIA T400")]
    with pytest.raises(UsageError, match="set CUDA_DEVICE_ORDER=PCI_BUS_ID"):
        states(*cards, CUDA_VISIBLE_DEVICES="1")
    (gpu,) = states(*cards, CUDA_VISIBLE_DEVICES="1", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert gpu.name == "NVIDIA T400"


def test_fake_has_no_function_that_pynvml_lacks() -> None:
    """Each question that the fake answers exists in the real module, where that is installed."""
    pynvml = pytest.importorskip("pynvml")
    from tests.fakes import fake_nvml

    assert [name for name in fake_nvml.QUESTIONS if not hasattr(pynvml, f"nvmlDeviceGet{name}")] == []
