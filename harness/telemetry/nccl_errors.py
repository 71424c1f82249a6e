"""What do the errors of NCCL mean? Its own words are few; each stands for a family of reasons."""

from __future__ import annotations

from dataclasses import dataclass

from harness.diagnose.diagnosis import UNKNOWN
from harness.diagnose.finding import Category, Evidence, Finding
from harness.telemetry.nccl_log import NcclLog


@dataclass(frozen=True)
class Meaning:
    """What an error says of its reason."""

    category: Category
    summary: str
    action: str
    confidence: float = 0.6
    is_consequence: bool = False
    """Whether it follows from the death of another rank, so that another error comes first."""


WARN = "Run again with NCCL_DEBUG=WARN: the NCCL WARN line just before the error names the call that failed."

MEANINGS = {
    "out_of_memory": Meaning(
        "memory", "A rank ran out of GPU memory", "Solve that first; the other ranks only wait for it.", 0.7
    ),
    "shared_memory": Meaning(
        "communication",
        "NCCL could not create its segment in /dev/shm",
        "Enlarge it: docker --shm-size=8g or --ipc=host, in Kubernetes an emptyDir of medium Memory at /dev/shm.",
        0.9,
    ),
    "duplicate_gpu": Meaning(
        "communication",
        "Two ranks use the same GPU",
        "Call torch.cuda.set_device(LOCAL_RANK) before the process group starts, and compare CUDA_VISIBLE_DEVICES.",
        0.9,
    ),
    "no_interface": Meaning(
        "communication",
        "NCCL found no network interface of the name it was given",
        "Correct or unset NCCL_SOCKET_IFNAME; ip -brief addr lists the names on each node.",
        0.9,
    ),
    "refused": Meaning(
        "communication",
        "A rank could not reach another one: nobody listens there, or a firewall is between",
        "Check MASTER_ADDR and MASTER_PORT, that the other rank lives, and NCCL_SOCKET_IFNAME (not docker0, lo).",
    ),
    "ib": Meaning(
        "communication",
        "A transfer over InfiniBand or RoCE failed: the link, its settings or the other node",
        "Check ibstat, the counters of the port, memlock, on RoCE NCCL_IB_GID_INDEX; confirm with NCCL_IB_DISABLE=1.",
        0.7,
    ),
    "cuda": Meaning(
        "communication",
        "A CUDA call inside NCCL failed; an earlier error of the device shows up there",
        f"Read dmesg for Xid, run once with CUDA_LAUNCH_BLOCKING=1. {WARN}",
        0.5,
    ),
    "system": Meaning(
        "communication",
        "A call to the operating system failed inside NCCL: sockets, shared memory, or locked memory",
        f"Check /dev/shm, ulimit -l and -n, and the interfaces. {WARN}",
        0.5,
    ),
    "remote": Meaning(
        "communication",
        "Another rank is gone: it exited, or the network to it broke",
        "Look for the rank that died first, in its own log and in dmesg; this line is its consequence.",
        0.5,
        is_consequence=True,
    ),
    "usage": Meaning("communication", "NCCL was called with arguments that do not fit", WARN, 0.5),
    "internal": Meaning(
        "communication", "NCCL met a state that should not be: often two versions of it in one job", WARN, 0.5
    ),
}


def errors_of(log: NcclLog, *, after_hang: bool) -> list[Finding]:
    """Return the first error of each kind with its meaning; what follows from another one is less sure."""
    causes = [kind for kind in log.errors if not MEANINGS[kind].is_consequence]
    told = causes or list(log.errors)
    special = [kind for kind in told if kind not in {"system", "cuda", "usage", "internal"}]
    return [_finding(log, kind, after_hang=after_hang) for kind in special or told]


def _finding(log: NcclLog, kind: str, *, after_hang: bool) -> Finding:
    meaning, line = MEANINGS[kind], log.errors[kind]
    late = after_hang and kind in {"remote", "system", "internal", "cuda"}
    evidence = Evidence(
        name="error", value=line.text.strip()[:160], unit="", threshold="none expected", source=line.place
    )
    return Finding(
        category=meaning.category,
        cause=UNKNOWN,
        confidence=0.3 if late else meaning.confidence,
        summary=f"{meaning.summary}.",
        evidence=[evidence],
        confirm=WARN,
        action=meaning.action,
        place=line.place,
    )
