"""What did NCCL and torch's watchdog of it print? Transports, time-outs, mismatches and errors, each with its line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

MAX_KEPT = 2000
"""Time-outs, mismatches and errors that are kept of each kind: a rank repeats itself."""

LINE = re.compile(r"(?P<host>[\w.<>-]+):\d+:\d+ \[\d+\] (?:\S+:\d+ )?NCCL (?:INFO|WARN|TRACE|ERROR)")
MARK = re.compile(
    r"NCCL (?:INFO|WARN|version)|ProcessGroupNCCL|WorkNCCL\(|ncclSystemError|ncclRemoteError|ncclUnhandledCudaError"
    r"|ncclInternalError|ncclInvalidUsage|NCCL error|CollectiveFingerPrint|monitoredBarrier"
)
"""What makes a line one of NCCL's or of the process group above it."""

CHANNEL = re.compile(
    r"(?:Channel|Ring) \d+(?:/\d+)? : (?P<from>\d+)(?:\[\w+\])? (?:->|<-) (?P<to>\d+)(?:\[\w+\])?"
    r"(?: \[(?:send|receive)\])? via (?P<via>[A-Za-z0-9]+(?:/[A-Za-z]\w*)?)"
)
NETWORK = re.compile(r"Using network (\w+)")
NODES = re.compile(r"\bnNodes (\d+)")
RANKS = re.compile(r"\bn[rR]anks (\d+)\b")
INTERFACE = re.compile(r"NET/Socket : Using \[0\]([\w.-]+):")
IB_FOUND = re.compile(r"NET/IB : Using \[0\]([\w.:/-]+)")
NO_IB = re.compile(r"NET/IB : No device found|Failed to open libibverbs")
SET_BY_HAND = re.compile(r"\b(NCCL_(?:P2P|IB|SHM|NET)_?\w*) set by environment to (\S+)|\b(NCCL_IB_DISABLE)=(1)\b")
NVLINK = re.compile(r"\bNVL(?:S|ink)?\b|\bNVLink\b|/NVL\b|\+ NVL\[")

TIMEOUT = re.compile(
    r"(?:\[rank(?P<global>\d+)\].*?)?\[(?:PG (?:ID |GUID )?(?P<group>\w+)[^\]]*? )?Rank (?P<rank>\d+)\]\s*"
    r"(?:\[[^\]]*\]\s*)?Watchdog caught collective operation timeout:\s*"
    r"WorkNCCL\(\s*SeqNum=(?P<seq>\d+)(?=[,)])(?:,\s*OpType=(?P<op>\w+)(?=[,)]))?(?:,\s*NumelIn=(?P<numel>\d+)(?=[,)]))?"
)
FINGERPRINT = re.compile(r"Rank (?P<rank>\d+) is running (?:inconsistent )?collective:\s*(?P<what>[^\n]{0,200})")
MISMATCH = re.compile(r"Detected mismatch between collectives|Mismatched collective detected|collective mismatch error")
BARRIER = re.compile(r"Ranks? (?P<ranks>\d+(?:,\s*\d+)*) failed to pass monitoredBarrier")


@dataclass(frozen=True)
class Told:
    """A line that matters."""

    place: str
    """File and line."""
    text: str


@dataclass(frozen=True)
class Timeout:
    """The collective that a rank waited for in vain."""

    rank: int
    group: str
    """The process group, where the line names it."""
    seq: int
    op: str
    numel: str
    place: str


@dataclass
class NcclLog:
    """What the files of one job say, taken together."""

    files: list[str]
    hosts: set[str] = field(default_factory=set)
    nodes: int = 0
    """As NCCL says; 0 where it does not."""
    ranks: int = 0
    networks: Counter[str] = field(default_factory=Counter)
    channels: Counter[str] = field(default_factory=Counter)
    """Transport, as ``P2P/IPC`` or ``NET/Socket`` -> lines."""
    by_hand: dict[str, str] = field(default_factory=dict)
    interface: str = ""
    ib_device: str = ""
    no_ib: bool = False
    has_nvlink: bool = False
    first: dict[str, Told] = field(default_factory=dict)
    """The first line of a transport, a network or a setting."""
    timeouts: list[Timeout] = field(default_factory=list)
    mismatches: list[Told] = field(default_factory=list)
    late: dict[int, str] = field(default_factory=dict)
    """Ranks that did not come to a barrier, with the place."""
    errors: dict[str, Told] = field(default_factory=dict)
    """The first line of each kind of error."""
    lines: int = 0
    """Lines of NCCL."""

    @property
    def num_nodes(self) -> int:
        """Nodes that are known to take part."""
        return max(self.nodes, len(self.hosts))


ERRORS = {
    "out_of_memory": re.compile(r"CUDA out of memory|OutOfMemoryError|Cuda failure 2? ?'out of memory'", re.IGNORECASE),
    "shared_memory": re.compile(r"Error while creating shared memory segment|/dev/shm/nccl\S*.*No space left"),
    "duplicate_gpu": re.compile(r"Duplicate GPU detected"),
    "no_interface": re.compile(r"no socket interface found|No usable listening interface found"),
    "refused": re.compile(r"[Cc]onnection refused|No route to host|Connect to \S+ failed"),
    "ib": re.compile(
        r"Got completion (?:from peer|with error|with status)|Call to ibv_\w+ failed|IBV_WC_RETRY_EXC_ERR"
    ),
    "cuda": re.compile(r"ncclUnhandledCudaError|unhandled cuda error|NCCL WARN Cuda failure"),
    "remote": re.compile(
        r"remote process exited|ncclRemoteError|[Cc]onnection (?:reset|closed) by (?:remote )?peer"
        r"|Broken pipe|socketProgress"
    ),
    "system": re.compile(r"ncclSystemError|unhandled system error"),
    "usage": re.compile(r"ncclInvalidUsage|invalid usage"),
    "internal": re.compile(r"ncclInternalError|internal error -"),
}
"""Kind of error -> how it is worded. The first kind that a line fits."""

LINK_ONLY = frozenset({"refused", "remote"})
"""Kinds that other programs print as well: they count in lines of NCCL or of the process group alone."""


def read_nccl(sources: Iterable[tuple[str, Iterable[tuple[int, str]]]]) -> NcclLog:
    """Read the logs of one job, of one file or of a file for each rank."""
    log = NcclLog([])
    for file, lines in sources:
        log.files.append(file)
        for number, text in lines:
            _take(log, Told(f"{file}:{number}", text))
    return log


def _take(log: NcclLog, line: Told) -> None:
    is_nccl = bool(MARK.search(line.text))
    log.lines += is_nccl
    if is_nccl:
        _take_transport(log, line)
        _take_waiting(log, line)
    if kind := _error_in(line.text, is_nccl=is_nccl):
        log.errors.setdefault(kind, line)


def _error_in(text: str, *, is_nccl: bool) -> str:
    if any(words in text for words in ("Watchdog caught", "set by environment", "retrying")):
        return ""
    found = (kind for kind, words in ERRORS.items() if words.search(text) and (is_nccl or kind not in LINK_ONLY))
    return next(found, "")


def _take_transport(log: NcclLog, line: Told) -> None:
    text = line.text
    if head := LINE.search(text):
        log.hosts.add(head["host"])
    if channel := CHANNEL.search(text):
        log.channels[channel["via"]] += 1
        log.first.setdefault(channel["via"], line)
        log.ranks = max(log.ranks, int(channel["from"]) + 1, int(channel["to"]) + 1)
    if network := NETWORK.search(text):
        log.networks[network[1]] += 1
        log.first.setdefault(f"network {network[1]}", line)
    log.nodes = max([log.nodes, *(int(match[1]) for match in NODES.finditer(text))])
    log.ranks = max([log.ranks, *(int(match[1]) for match in RANKS.finditer(text))])
    if hand := SET_BY_HAND.search(text):
        log.by_hand[hand[1] or hand[3]] = (hand[2] or hand[4]).rstrip(".,")
        log.first.setdefault(hand[1] or hand[3], line)
    log.interface = log.interface or (match[1] if (match := INTERFACE.search(text)) else "")
    log.ib_device = log.ib_device or (match[1] if (match := IB_FOUND.search(text)) else "")
    log.no_ib |= bool(NO_IB.search(text))
    log.has_nvlink |= bool(NVLINK.search(text))


def _take_waiting(log: NcclLog, line: Told) -> None:
    """Take what a rank says of a collective that did not come about."""
    for match in TIMEOUT.finditer(line.text):
        if len(log.timeouts) < MAX_KEPT:
            rank = int(match["global"] or match["rank"])
            told = (match["group"] or "", int(match["seq"]), match["op"] or "", match["numel"] or "")
            log.timeouts.append(Timeout(rank, *told, line.place))
    if MISMATCH.search(line.text) and len(log.mismatches) < MAX_KEPT:
        log.mismatches.append(line)
    for barrier in BARRIER.finditer(line.text):
        for late in barrier["ranks"].split(","):
            log.late.setdefault(int(late), line.place)
