"""``gpu-exam verify`` and ``replay``: is the evidence intact, and do its commands give the same numbers again?"""

from __future__ import annotations

from pathlib import Path

from harness.cli.flags import Flags, whole
from harness.cli.terminal import say, table
from harness.experiment.replay import ReplayResult, replay
from harness.observe.evidence import VerifyReport, verify


def run_verify(words: list[str]) -> int:
    """Check the chain, the artefacts and the terminal record; return 0 when all hold, 1 when not."""
    parser = Flags("gpu-exam verify", "Check an evidence folder, offline.")
    parser.add_argument("folder", metavar="DIR", type=Path, help="folder with evidence.jsonl")
    parser.add_argument("--head", metavar="HASH", help="head hash that was noted elsewhere; detects a rewritten chain")
    args = parser.read(words)
    result = verify(args.folder, args.head)
    for problem in result.problems:
        say(f"problem: {problem}")
    if result.terminal is not None:
        say(f"{result.terminal.executed} of {result.terminal.planned} planned checks executed")
    say(f"{'intact' if result.ok else 'NOT intact'}: {result.records} records, head {_head(result)}")
    return 0 if result.ok else 1


def run_replay(words: list[str]) -> int:
    """Run recorded commands again; return 0 when every number is the same within its tolerance, 1 when not."""
    parser = Flags("gpu-exam replay", "Run recorded commands again and compare.")
    parser.add_argument("folder", metavar="DIR", type=Path, help="folder with evidence.jsonl")
    parser.add_argument("--record", type=whole(0), metavar="N", help="one record (default: all)")
    parser.add_argument(
        "--trust", action="store_true", help="also run commands that execute a file of their author, such as a workload"
    )
    args = parser.read(words)
    results = replay(args.folder, args.record, trust=args.trust)
    say(
        "\n".join(
            table([_row(result) for result in results], ["record", "number", "outcome", "recorded", "now", "why"])
        )
    )
    compared = [result for result in results if result.outcome != "SKIPPED"]
    return 0 if compared and all(result.outcome == "PASSED" for result in compared) else 1


def _head(result: VerifyReport) -> str:
    return (result.head or "unknown") if result.records else "none"


def _row(result: ReplayResult) -> list[str]:
    numbers = ["-" if value is None else f"{value:.6g}" for value in (result.recorded, result.replayed)]
    return [str(result.seq), result.name, result.outcome, *numbers, result.reason or "-"]
