"""Is what NCCL and its watchdog print understood: hangs, errors, and the transport?"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.diagnose.finding import Diagnosis
from harness.telemetry.nccl import diagnose_nccl, transports
from harness.telemetry.nccl_log import NcclLog, read_nccl
from harness.telemetry.read import NCCL, kind_of
from tests.telemetry.made import causes


def log_of(*texts: str) -> NcclLog:
    """Return what several files say together."""
    return read_nccl((f"{at}.log", enumerate(text.splitlines(), 1)) for at, text in enumerate(texts))


def judged(*texts: str) -> Diagnosis:
    """Return the diagnosis of several files."""
    return diagnose_nccl(log_of(*texts))


def info(text: str, rank: int = 0, host: str = "node-1") -> str:
    """Return a line of NCCL_DEBUG=INFO."""
    return f"{host}:{4000 + rank}:{4100 + rank} [{rank}] NCCL INFO {text}\n"


def warn(text: str, rank: int = 0, where: str = "misc/socket.cc:441") -> str:
    """Return a warning of NCCL."""
    return f"node-1:{4000 + rank}:{4100 + rank} [{rank}] {where} NCCL WARN {text}\n"


def channels(via: str, ranks: int = 2) -> str:
    """Return the channel lines of a ring."""
    lines = (
        f"Channel {at:02d}/0 : {rank}[{rank}] -> {(rank + 1) % ranks}[{(rank + 1) % ranks}] via {via}"
        for at in (0, 1)
        for rank in range(ranks)
    )
    return "".join(info(line) for line in lines)


def waits(rank: int, seq: int = 1580, op: str = "ALLREDUCE", numel: int = 1000, new: bool = True) -> str:
    """Return the line of the watchdog, as torch 2.1 and newer or 1.13 has it."""
    start = (
        f"[rank{rank}]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] " if new else "[E ProcessGroupNCCL.cpp:737] "
    )
    size = f"NumelIn={numel}, NumelOut={numel}, " if new else ""
    return (
        f"{start}[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, {size}"
        "Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n"
    )


def init(nodes: int, ranks: int) -> str:
    """Return the line that says how large the job is."""
    return info(
        f"comm 0x8ec0ac0 rank 0 nranks {ranks} cudaDev 0 nNodes {nodes} localRanks {ranks // nodes} localRank 0"
    )


SOCKET = (
    info("NET/IB : No device found.") + info("NET/Socket : Using [0]eth0:10.0.0.1<0>") + info("Using network Socket")
)
INFINIBAND = info("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>") + info("Using network IB")


MISMATCH = (
    "[rank1]: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
    "CollectiveFingerPrint(SequenceNumber=31, OpType=ALLREDUCE, TensorShape=[195], TensorDtypes=BFloat16), but Rank 0 "
    "is running collective: CollectiveFingerPrint(SequenceNumber=31, OpType=BROADCAST, TensorShape=[511]).\n"
)


@pytest.mark.parametrize(
    ("text", "confidence"),
    [
        (SOCKET + init(2, 4) + channels("NET/Socket/0"), 0.8),
        (SOCKET + init(2, 4), 0.7),
        (SOCKET + info("Using network Socket", host="node-2"), 0.7),
        (info("NCCL_IB_DISABLE set by environment to 1.") + SOCKET + init(2, 4) + channels("NET/Socket/1"), 0.9),
        (info("Ring 00 : 3 -> 0 [receive] via NET/Socket/0") + init(2, 4), 0.8),
        (SOCKET + init(1, 2) + channels("NET/Socket/0"), 0.8),
    ],
)
def test_sockets_carry_the_data(text: str, confidence: float) -> None:
    """Between nodes, or within one where P2P and shared memory are out of reach."""
    first = judged(text).findings[0]
    assert (first.category, first.cause, first.confidence) == ("communication", "slow_interconnect", confidence)
    assert first.place.startswith("0.log:")
    assert "NCCL_" in first.action


@pytest.mark.parametrize(
    "text",
    [
        INFINIBAND + init(2, 4) + channels("NET/IB/0/GDRDMA"),
        INFINIBAND + init(2, 4) + channels("P2P/IPC/read") + channels("NET/IBext_v8/2"),
        SOCKET + init(1, 2) + channels("P2P/CUMEM"),
        SOCKET + init(1, 2) + channels("P2P/direct pointer"),
        SOCKET + init(1, 2) + channels("SHM/direct/direct"),
        SOCKET + channels("SHM"),
        info("Call to connect returned Connection refused, retrying") + init(1, 2) + channels("P2P/IPC"),
        init(1, 2) + channels("P2P/IPC") + info("[Service thread] Connection closed by localRank 0"),
        info("NET/OFI Using aws-ofi")
        + info("Using network AWS Libfabric")
        + init(2, 16)
        + channels("NET/AWS Libfabric/0"),
        SOCKET + init(1, 8),
        INFINIBAND + init(4, 32),
        warn("Failed to open libibverbs.so[.1]", where="misc/ibvwrap.cc:63")
        + SOCKET
        + init(1, 2)
        + channels("P2P/IPC"),
    ],
)
def test_a_sound_transport(text: str) -> None:
    """On one node NCCL names a network too, and does not use it."""
    result = judged(text)
    assert (result.status, result.findings) == ("healthy", [])
    assert "slow_interconnect" in result.checked


def test_shared_memory_on_one_node_is_a_note() -> None:
    """It is told, not found."""
    assert "usual transport between GPUs without NVLink" in transports(log_of(init(1, 2) + channels("SHM/direct")))


@pytest.mark.parametrize(
    ("nvlink", "found"), [("", []), (info("=== System : maxBw 240.0 + NVL[240.0] - GPU/7000"), ["slow_interconnect"])]
)
def test_p2p_switched_off_by_hand(nvlink: str, found: list[str]) -> None:
    """A fault where NVLink is seen, otherwise a question."""
    text = info("NCCL_P2P_DISABLE set by environment to 1.") + nvlink + init(1, 2) + channels("SHM/direct/direct")
    result = judged(text)
    assert causes(result) == found
    assert [missing.command for missing in result.missing] == ([] if found else ["nvidia-smi topo -m"])


@pytest.mark.parametrize("text", [SOCKET, info("Bootstrap : Using eth0:10.0.0.1<0>"), "NCCL version 2.18.5+cuda12.2\n"])
def test_too_few_lines(text: str) -> None:
    """One host and no channels: nobody knows whether the network carries anything."""
    result = judged(text)
    assert (result.status, result.findings) == ("not_enough_evidence", [])
    assert "NCCL_DEBUG=INFO" in result.missing[0].command


@pytest.mark.parametrize("new", [True, False])
def test_ranks_that_do_not_report(*, new: bool) -> None:
    """Those that wait name their collective; the silent ones are to be looked at."""
    first = judged("".join(waits(rank, new=new) for rank in (1, 2, 3, 5))).findings[0]
    assert (first.category, first.cause) == ("straggler", "unknown")
    assert "ranks 0, 4 did not report" in first.summary
    assert "ALLREDUCE number 1580" in first.summary
    assert "Raising the timeout hides it" in first.action


def test_the_size_of_the_job_tells_of_silent_ranks_at_the_end() -> None:
    """Of eight ranks the last two are missing."""
    first = judged(init(1, 8) + "".join(waits(rank) for rank in range(6))).findings[0]
    assert "ranks 6, 7 did not report" in first.summary


def test_all_ranks_wait_for_the_same() -> None:
    """The collective began: the transport is to be looked at."""
    first = judged(init(1, 4) + "".join(waits(rank) for rank in range(4))).findings[0]
    assert (first.category, first.cause) == ("communication", "unknown")
    assert "all ranks" in first.summary


def test_a_single_rank_says_little() -> None:
    """No rank is called silent because its log was not given."""
    first = judged(waits(3)).findings[0]
    assert (first.category, first.confidence) == ("communication", 0.5)
    assert "logs of all ranks" in first.action


def test_logs_of_each_rank_are_taken_together() -> None:
    """Each says its own part."""
    first = judged(waits(0), waits(1), waits(3)).findings[0]
    assert "rank 2 did not report" in first.summary


@pytest.mark.parametrize(
    "lines",
    [
        waits(0) + waits(1) + waits(2, op="BROADCAST"),
        waits(0, seq=1580) + waits(1, seq=1580) + waits(2, seq=1577),
        waits(0) + waits(1) + waits(2, numel=5),
        MISMATCH,
    ],
)
def test_ranks_at_different_collectives(lines: str) -> None:
    """They can never meet."""
    first = judged(lines).findings[0]
    assert (first.category, first.cause) == ("communication", "mismatched_collectives")
    assert "every rank must call the same collectives" in first.action


def test_a_cut_line_is_no_mismatch() -> None:
    """What is not said may be the same."""
    text = waits(0, new=False) + waits(1, new=False) + waits(3, new=False).split("REDUCE")[0]
    assert "rank 2 did not report" in judged(text).findings[0].summary


def test_the_barrier_that_names_the_late() -> None:
    """MonitoredBarrier knows them."""
    text = "RuntimeError: [Rank 0]: Ranks 2, 5 failed to pass monitoredBarrier in 30000 ms\n"
    first = judged(text).findings[0]
    assert (first.category, first.summary) == ("straggler", "Ranks 2, 5 did not come to the barrier in time.")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (warn("Error while creating shared memory segment /dev/shm/nccl-abc (size 9637888)"), "--shm-size"),
        (warn("Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1b000"), "set_device"),
        (warn("Bootstrap : no socket interface found"), "NCCL_SOCKET_IFNAME"),
        (warn("Connect to 10.0.0.2<4321> failed : Connection refused"), "MASTER_ADDR"),
        (warn("NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129"), "ibstat"),
        (warn("Call to ibv_modify_qp failed with error Connection timed out"), "ibstat"),
        ("DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1275, unhandled system error\n", "/dev/shm"),
        ("ncclUnhandledCudaError: Call to CUDA function failed.\n", "Xid"),
        ("NCCL error: remote process exited or there was a network error, NCCL version 2.14.3\n", "died first"),
        (warn("Net : Connection closed by remote peer node-2<5000>"), "died first"),
    ],
)
def test_what_an_error_means(text: str, said: str) -> None:
    """Each is told with what to look at."""
    first = judged(SOCKET + init(1, 2) + channels("P2P/IPC") + text).findings[0]
    assert first.category == "communication"
    assert said in first.action


def test_the_first_error_counts_and_its_consequence_does_not() -> None:
    """A rank that is gone follows from the memory that ran out."""
    text = (
        waits(1) + "[rank0]: torch.OutOfMemoryError: CUDA out of memory.\n" + warn("Connection closed by remote peer x")
    )
    assert [finding.category for finding in judged(text).findings] == ["memory", "communication"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (SOCKET, NCCL),
        (waits(1, new=False), NCCL),
        ("warming up\n" * 9000 + waits(1), NCCL),
        (SOCKET + "step=1 loss=2.31\nstep=2 loss=2.30\n", ""),
        (SOCKET + "{'loss': 0.5, 'epoch': 1}\n", ""),
        ("Epoch 3: train_loss: nan\n" + waits(2), ""),
        ("The NCCL library moves the gradients.\n", ""),
        ("[W] ProcessGroupNCCL.cpp:1250] Warning: process group has NOT been destroyed\n", ""),
        ("torch.OutOfMemoryError: CUDA out of memory.\n" + info("Abort COMPLETE"), ""),
    ],
)
def test_which_files_are_of_nccl(text: str, kind: str, tmp_path: Path) -> None:
    """Losses make a training log."""
    path = tmp_path / "out"
    path.write_text(text, encoding="utf-8")
    assert kind_of(path) == kind
