"""Who waits for whom? Collectives that timed out, ranks that did not come, and ranks that asked for different ones."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from harness.diagnose.diagnosis import UNKNOWN
from harness.diagnose.finding import NO_BOUND, Category, Evidence, Finding
from harness.telemetry.nccl_log import FINGERPRINT, NcclLog, Timeout

MISMATCHED = "mismatched_collectives"

LOOK = (
    "Look what these ranks do or did: py-spy dump --pid PID while it hangs; their last lines, dmesg (killed, out of "
    "memory, Xid), their data loader, and code that only some ranks run. Raising the timeout hides it."
)

ORDER = (
    "Find the branch that only some ranks take (if rank == 0, a skipped batch, unequal numbers of batches, early "
    "stop): every rank must call the same collectives in the same order."
)

CONFIRM = "Run again with TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 and compare the ranks' dumps."


def hangs_of(log: NcclLog) -> list[Finding]:
    """Return what the watchdog and the checks of the process group say of collectives that did not come about."""
    found = [*_told_mismatch(log), *_barrier(log)]
    groups: dict[str, dict[int, Timeout]] = {}
    for timeout in log.timeouts:
        groups.setdefault(timeout.group, {}).setdefault(timeout.rank, timeout)
    alone = len(groups) == 1
    return found + [_of_group(log, ranks, alone=alone) for ranks in groups.values()]


def _of_group(log: NcclLog, by_rank: dict[int, Timeout], *, alone: bool) -> Finding:
    """Judge the first time-out of each rank of a process group."""
    timeouts = list(by_rank.values())
    usual = Counter((one.seq, one.op, one.numel) for one in timeouts).most_common(1)[0][0]
    apart = {rank: one for rank, one in by_rank.items() if _differs(one, usual)}
    if apart:
        return _desynchronised(by_rank, apart)
    known = max(log.ranks, max(by_rank) + 1)
    silent = sorted(set(range(known)) - set(by_rank)) if alone and len(by_rank) > 1 else []
    first = timeouts[0]
    what = f"{first.op or 'a collective'} number {first.seq}"
    if silent:
        summary = (
            f"{_ranks(by_rank)} waited in vain for {what}; {_ranks(silent)} did not report: most likely "
            f"{'it' if len(silent) == 1 else 'one of them'} never arrived there. {_before(first)}"
        )
        return _finding("straggler", 0.7, summary, timeouts, silent, LOOK)
    if len(by_rank) == 1:
        summary = f"Rank {first.rank} waited in vain for {what}; the other ranks are not in this file. {_before(first)}"
        action = f"Read the logs of all ranks together (gpu-exam diagnose rank*.log): who is silent? {LOOK}"
        return _finding("communication", 0.5, summary, timeouts, [], action)
    whole = "all ranks" if log.ranks == len(by_rank) else "no rank in between is missing"
    summary = (
        f"{_ranks(by_rank)} waited in vain for the same {what} ({whole}): it began and did not end. {_before(first)}"
    )
    action = (
        "Suspect the transport: run nccl-tests on the same nodes, once with NCCL_P2P_DISABLE=1 and once with "
        "NCCL_IB_DISABLE=1; read dmesg for Xid errors. Ranks above these may be missing. Raising the timeout hides it."
    )
    return _finding("communication", 0.6, summary, timeouts, [], action)


def _before(timeout: Timeout) -> str:
    """Say that the network worked before."""
    return f"{timeout.seq - 1} collectives came about before: no slow network." if timeout.seq > 100 else ""


def _ranks(ranks: list[int] | dict[int, Timeout]) -> str:
    told = [str(rank) for rank in sorted(ranks)]
    more = f" and {len(told) - 16} more" if len(told) > 16 else ""
    return f"rank{'s' if len(told) > 1 else ''} {', '.join(told[:16])}{more}"


def _differs(one: Timeout, usual: tuple[int, str, str]) -> bool:
    """Whether a rank waits for another collective; what its line does not say, it may have in common."""
    seq, op, numel = usual
    return one.seq != seq or bool(one.op and op and one.op != op) or bool(one.numel and numel and one.numel != numel)


def _desynchronised(by_rank: dict[int, Timeout], apart: dict[int, Timeout]) -> Finding:
    """Ranks that wait at different collectives of one group can never meet."""
    told = "; ".join(f"rank {rank} at {_call(one)}" for rank, one in sorted(apart.items())[:4])
    rest = {rank: one for rank, one in by_rank.items() if rank not in apart}
    others = max(rest.values(), key=lambda one: len(one.op))
    summary = f"The ranks wait at different collectives: {told}, but {_ranks(rest)} at {_call(others)}."
    finding = _finding("communication", 0.8, summary, list(by_rank.values()), sorted(apart), ORDER)
    return replace(finding, cause=MISMATCHED)


def _call(timeout: Timeout) -> str:
    size = f" of {timeout.numel} elements" if timeout.numel else ""
    return f"{timeout.op or 'a collective'} number {timeout.seq}{size}"


def _finding(
    category: Category, confidence: float, summary: str, timeouts: list[Timeout], ranks: list[int], action: str
) -> Finding:
    first, source = timeouts[0], timeouts[0].place
    evidence = [
        Evidence(name="waiting_ranks", value=float(len(timeouts)), unit="ranks", threshold=">= 1", source=source),
        Evidence(name="sequence_number", value=str(first.seq), unit="", threshold=NO_BOUND, source=source),
        Evidence(name="collective", value=first.op or "?", unit="", threshold=NO_BOUND, source=source),
    ]
    if ranks:
        named = ", ".join(map(str, ranks[:32]))
        evidence.append(Evidence(name="other_ranks", value=named, unit="", threshold="not as the rest", source=source))
    return Finding(
        category=category,
        cause=UNKNOWN,
        confidence=confidence,
        summary=summary[:1].upper() + summary[1:].rstrip(),
        evidence=evidence,
        confirm=CONFIRM,
        action=action,
        place=source,
    )


def _told_mismatch(log: NcclLog) -> list[Finding]:
    """Return that torch or NCCL itself saw the ranks call different collectives."""
    if not log.mismatches:
        return []
    line = log.mismatches[0]
    told = [f"rank {one['rank']} runs {_short(one['what'])}" for one in FINGERPRINT.finditer(line.text)]
    evidence = Evidence(
        name="mismatches", value=float(len(log.mismatches)), unit="lines", threshold=">= 1", source=line.place
    )
    return [
        Finding(
            category="communication",
            cause=MISMATCHED,
            confidence=0.9,
            summary=f"The ranks called different collectives: {'; '.join(told) or line.text.strip()[-160:]}.",
            evidence=[evidence],
            confirm="TORCH_DISTRIBUTED_DEBUG=DETAIL names the call and the shapes of each rank.",
            action=ORDER,
            place=line.place,
        )
    ]


def _short(what: str) -> str:
    """Return operation and shape of a fingerprint."""
    inside = what.rsplit("CollectiveFingerPrint(", maxsplit=1)[-1]
    kept = [part for part in inside.split(", Tensor")[:2] if "=" in part]
    return ", ".join(part.strip(" ),.") for part in kept) or what.strip()[:60]


def _barrier(log: NcclLog) -> list[Finding]:
    if not log.late:
        return []
    ranks, source = sorted(log.late), next(iter(log.late.values()))
    evidence = Evidence(
        name="late_ranks", value=", ".join(map(str, ranks)), unit="", threshold="none expected", source=source
    )
    return [
        Finding(
            category="straggler",
            cause=UNKNOWN,
            confidence=0.8,
            summary=f"{_ranks(ranks).capitalize()} did not come to the barrier in time.",
            evidence=[evidence],
            confirm=CONFIRM,
            action=LOOK,
            place=source,
        )
    ]
