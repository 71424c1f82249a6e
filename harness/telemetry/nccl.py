"""What do NCCL's lines say of the communication? The hang first, then errors, then a slow transport."""

from __future__ import annotations

from harness.diagnose.diagnosis import TOLD_APART
from harness.diagnose.finding import NO_BOUND, Diagnosis, Evidence, Finding, Missing, Status
from harness.telemetry.nccl_errors import errors_of
from harness.telemetry.nccl_hang import hangs_of
from harness.telemetry.nccl_log import NcclLog, Told

INFO = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH torchrun ... > nccl.log 2>&1"

BANDWIDTH = "all_reduce_perf -b 8M -e 1G -f 2 -g 1 on all nodes (nccl-tests): busbw against the speed of the link"


def diagnose_nccl(log: NcclLog) -> Diagnosis:
    """Return what is wrong with the communication of a job, surest first; or what the lines do not tell."""
    hangs = hangs_of(log)
    failures = [*hangs, *errors_of(log, after_hang=bool(hangs))]
    slow, missing = _transport(log)
    findings = sorted([*failures, *slow], key=lambda finding: -finding.confidence)
    checked = ["collective_timeouts", "mismatched_collectives", "nccl_errors"]
    checked += [] if missing else ["slow_interconnect"]
    status: Status = "not_enough_evidence" if missing else "healthy"
    if findings:
        status = "diagnosed" if findings[0].confidence >= TOLD_APART else "inconclusive"
    return Diagnosis(status=status, findings=findings, missing=missing, checked=checked)


def _transport(log: NcclLog) -> tuple[list[Finding], list[Missing]]:
    """Return a network over sockets between nodes, or what is not known of the network."""
    sockets = [via for via in log.channels if via.startswith("NET/Socket")]
    if sockets:
        return [_sockets(log, log.first[sockets[0]], 0.9 if _could_be_faster(log) else 0.8)], []
    over_network = any(via.startswith("NET/") for via in log.channels)
    chosen = log.first.get("network Socket")
    if log.channels and (over_network or not chosen or log.num_nodes <= 1):
        return _peers(log)
    if chosen and log.num_nodes > 1:
        return [_sockets(log, chosen, 0.8 if _could_be_faster(log) else 0.7)], []
    if chosen and log.nodes != 1:
        interface = f" over {log.interface}" if log.interface else ""
        reason = "; it found no InfiniBand" if log.no_ib else ""
        told = f"channel lines: NCCL would use TCP sockets{interface} between nodes{reason}; one host is seen"
        return [], [Missing(observation=told, needed_for="slow_interconnect", command=INFO)]
    if log.networks:
        return [], []
    return [], [Missing(observation="the transport of the channels", needed_for="slow_interconnect", command=INFO)]


def _could_be_faster(log: NcclLog) -> bool:
    """Whether InfiniBand is there or was switched off."""
    return bool(log.ib_device) or log.by_hand.get("NCCL_IB_DISABLE") == "1" or log.interface.startswith("ib")


def _sockets(log: NcclLog, line: Told, confidence: float) -> Finding:
    lines = sum(count for via, count in log.channels.items() if via.startswith("NET/Socket"))
    where = f"between {log.num_nodes} nodes" if log.num_nodes > 1 else "between GPUs of one node"
    fast = "; InfiniBand is there but not used" if log.ib_device else ""
    fast = "; InfiniBand was switched off (NCCL_IB_DISABLE=1)" if log.by_hand.get("NCCL_IB_DISABLE") == "1" else fast
    over = f" over {log.interface}" if log.interface else ""
    evidence = [
        Evidence(name="transport", value="NET/Socket", unit="", threshold="not a socket", source=line.place),
        Evidence(name="socket_channels", value=float(lines), unit="lines", threshold=NO_BOUND, source=line.place),
        Evidence(name="nodes", value=float(log.num_nodes), unit="", threshold=NO_BOUND, source=line.place),
    ]
    if log.interface:
        evidence.append(Evidence(name="interface", value=log.interface, unit="", threshold=NO_BOUND, source=line.place))
    return Finding(
        category="communication",
        cause="slow_interconnect",
        confidence=confidence,
        summary=f"NCCL moves its data {where} through TCP sockets{over}{fast}: the host copies every byte.",
        evidence=evidence,
        confirm=f"Run {BANDWIDTH}.",
        action=_remedy(log),
        place=line.place,
    )


def _remedy(log: NcclLog) -> str:
    if log.num_nodes <= 1:
        return (
            "Within a node NCCL needs P2P or shared memory: unset NCCL_P2P_DISABLE and NCCL_SHM_DISABLE, give the "
            "container --ipc=host or a large --shm-size, and put the ranks of a node into one container."
        )
    return (
        "Where the nodes have InfiniBand or RoCE: show it to the job (in a container --device=/dev/infiniband, "
        "--ulimit memlock=-1, --cap-add=IPC_LOCK), unset NCCL_IB_DISABLE, and name it in NCCL_IB_HCA. Otherwise "
        "name the fastest interface in NCCL_SOCKET_IFNAME, and send less (accumulation, bf16 gradients)."
    )


def _peers(log: NcclLog) -> tuple[list[Finding], list[Missing]]:
    """Return P2P that was switched off between GPUs with NVLink; without NVLink, shared memory is what there is."""
    off = log.by_hand.get("NCCL_P2P_DISABLE") == "1" or log.by_hand.get("NCCL_P2P_LEVEL") in {"LOC", "0"}
    shared = sum(count for via, count in log.channels.items() if via.startswith("SHM"))
    if not off or not shared:
        return [], []
    line = log.first.get("NCCL_P2P_DISABLE") or log.first["NCCL_P2P_LEVEL"]
    if not log.has_nvlink:
        told = "whether NVLink joins the GPUs: P2P was switched off by hand"
        return [], [Missing(observation=told, needed_for="slow_interconnect", command="nvidia-smi topo -m")]
    finding = Finding(
        category="communication",
        cause="slow_interconnect",
        confidence=0.8,
        summary="P2P was switched off by hand, so the GPUs talk through the host's memory although NVLink joins them.",
        evidence=[
            Evidence(name="NCCL_P2P_DISABLE", value="1", unit="", threshold="not set", source=line.place),
            Evidence(name="shm_channels", value=float(shared), unit="lines", threshold=NO_BOUND, source=line.place),
        ],
        confirm="Run all_reduce_perf -b 8M -e 1G -f 2 -g 8 (nccl-tests) with and without the variable.",
        action="Unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL.",
        place=line.place,
    )
    return [finding], []


def transports(log: NcclLog) -> str:
    """Return in words which transports were seen, for a reader who doubts the answer."""
    told = [f"{via} on {count} channel line(s)" for via, count in log.channels.most_common(4)]
    told += [] if told else [f"network {name}" for name in log.networks]
    note = ""
    if log.channels and all(via.startswith("SHM") for via in log.channels) and log.num_nodes <= 1:
        note = "; shared memory is the usual transport between GPUs without NVLink or P2P"
    return (", ".join(told) or "no transport") + (f", {log.num_nodes} node(s)" if log.num_nodes else "") + note
