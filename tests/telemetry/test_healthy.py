"""Are sound machines left alone? Cards of several kinds, in states that look like faults and are none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.telemetry.diagnosis import diagnose_telemetry
from harness.telemetry.nccl import diagnose_nccl
from harness.telemetry.nccl_log import read_nccl
from harness.telemetry.read import read_telemetry
from tests.telemetry.made import causes, query, row


@dataclass(frozen=True)
class Card:
    """What the sound card of a kind says under load."""

    limit: int
    clock: int
    highest: int
    width: str = "16"


CARDS = {
    "V100": Card(300, 1455, 1530),
    "A100 PCIe": Card(300, 1065, 1410),
    "A100 SXM": Card(400, 1335, 1410),
    "H100 SXM": Card(700, 1410, 1980),
    "H200": Card(700, 1590, 1980),
    "RTX 4090": Card(450, 2520, 3105),
    "T4": Card(70, 885, 1590),
}

REST = {
    "util": "0 %",
    "power": "25.0 W",
    "clock": "210 MHz",
    "gen": "1",
    "reasons": "0x0000000000000001",
    "used": "4 MiB",
}

STATES: dict[str, list[dict[str, str]]] = {
    "steady": [{}] * 30,
    "capped now and then": [{"reasons": "0x0000000000000004"}, {}] * 15,
    "always at its power limit": [{"reasons": "0x0000000000000004"}] * 30,
    "starts and ends at rest": [REST] * 10 + [{}] * 20 + [REST] * 10,
    "one hot moment": [{"reasons": "0x0000000000000020", "temp": "86"}] + [{}] * 39,
    "slowdown while it falls asleep": [{}] * 20 + [REST | {"reasons": "0x0000000000000008"}] * 3,
    "link asleep at rest": [{}] * 20 + [REST] * 20,
    "pauses for checkpoints": ([{}] * 19 + [{"util": "4 %", "power": "90.0 W"}]) * 3,
    "old driver": [{"reasons": "[Not Supported]", "ecc": "[N/A]", "default": "[N/A]", "gen": "[N/A]"}] * 30,
    "light kernels": [{"util": "97 %", "power": "LIGHT"}] * 30,
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("kind", CARDS)
def test_a_sound_card_in_a_usual_state(kind: str, state: str, tmp_path: Path) -> None:
    """No finding, and healthy: eight of them, all columns."""
    card = CARDS[kind]
    own = {
        "power": f"{0.96 * card.limit:.2f} W",
        "limit": f"{card.limit}.00 W",
        "default": f"{card.limit}.00 W",
        "clock": f"{card.clock} MHz",
        "max": f"{card.highest} MHz",
        "width": card.width,
    }
    light = {"LIGHT": f"{0.4 * card.limit:.2f} W"}
    states = [{name: light.get(value, value) for name, value in one.items()} for one in STATES[state]]
    rows = [row(at % 60, **(own | one | {"index": str(gpu)})) for at, one in enumerate(states) for gpu in range(8)]
    path = tmp_path / "smi.csv"
    path.write_text(query(*rows), encoding="utf-8")
    result = diagnose_telemetry(read_telemetry(path))
    assert (result.status, causes(result)) == ("healthy", [])


@pytest.mark.parametrize("via", ["P2P/IPC", "P2P/CUMEM/read", "SHM/direct/direct", "P2P/direct pointer"])
@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("network", ["Socket", "IB"])
def test_a_sound_job_of_one_node(via: str, ranks: int, network: str) -> None:
    """Whatever network NCCL would use to others."""
    lines = [f"Using network {network}", f"comm 0x1 rank 0 nranks {ranks} cudaDev 0 nNodes 1 localRanks {ranks}"]
    lines += [
        f"Channel 00/0 : {rank}[{rank}] -> {(rank + 1) % ranks}[{(rank + 1) % ranks}] via {via}"
        for rank in range(ranks)
    ]
    lines += ["Connected all rings", "comm 0x1 rank 0 nranks 2 cudaDev 0 busId 7000 - Init COMPLETE"]
    text = [f"n1:40:41 [{at % ranks}] NCCL INFO {line}" for at, line in enumerate(lines)]
    assert diagnose_nccl(read_nccl([("nccl.log", enumerate(text, 1))])).status == "healthy"
