"""``gpu-exam watch -- COMMAND``: what is wrong with a training that somebody else wrote?"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from harness.cli.flags import Flags, one_of
from harness.cli.given import add_known, known_findings
from harness.cli.terminal import complain
from harness.cli.words import EXIT_CODES, as_json, as_words, no_longer_found
from harness.errors import UsageError
from harness.runs import Run
from harness.watch import command
from harness.watch.diagnosis import diagnose_processes
from harness.watch.records import PROCESSES, notes, silent_ranks, trained, write_ended

NOTHING = (
    "no backward pass of torch was seen in any process; gradients of torch.func are not observed, "
    "and python -I, -E or -S keeps the observers out"
)

LEVELS = ("default", "full")


def run(words: list[str]) -> int:
    """Run the command under observation; return its own exit code, whatever was found.

    With ``--known`` a command that ended well has the exit code of the diagnosis.
    """
    parser = Flags(
        "gpu-exam watch",
        "Run a training script unchanged, and say what is wrong with it. Output and exit code are the command's own.",
        usage="gpu-exam watch [--out DIR] [--level default|full] [--known FILE] [--verbose] -- COMMAND ...",
    )
    parser.add_argument("--out", metavar="DIR", help="where records and diagnosis.json go")
    parser.add_argument(
        "--level",
        default="default",
        type=one_of(*LEVELS),
        help="full repeats reductions and evaluations in more bits; slow",
    )
    add_known(parser, "exit with the diagnosis's code where the command's own is 0")
    parser.add_argument("--verbose", action="store_true", help="tell everything, and where each number was read")
    flags, wanted = _split(words)
    args = parser.read(flags)
    if not wanted:
        parser.error("no command given; it comes after --, as in gpu-exam watch -- python my_train.py")
    known = known_findings(args.known)
    out = Path(args.out or f"runs/{datetime.now(UTC):%Y%m%d-%H%M%S}-watch-{os.getpid()}").resolve()
    code = command.run(wanted, _prepared(out), args.level)
    write_ended(out, code)
    runs = trained(out)
    result = diagnose_processes(runs, known)
    (out / "diagnosis.json").write_text(as_json(result) + "\n", encoding="utf-8")
    first, *told = as_words(result, verbose=args.verbose)
    told = [f"gpu-exam watch: {first}", *told, *no_longer_found(known, result), *_seen(runs, notes(out))]
    complain("\n".join([*told, f"records: {out}; gpu-exam diagnose {out} --verbose says more"]))
    return code or (EXIT_CODES[result.status] if args.known else 0)


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Return our flags and the command: what follows the first ``--``."""
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _prepared(out: Path) -> Path:
    folder = out / PROCESSES
    if folder.exists():
        raise UsageError(f"--out {out}: it already holds a watched command; name another folder")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written: {error.strerror}") from error
    return folder


def _seen(runs: list[Run], reasons: list[str]) -> list[str]:
    """Say which processes could not be observed, or ended early, and which ranks did not train."""
    lines = [f"a process could not be observed: {reason}" for reason in reasons]
    if not runs and not reasons:
        lines.append(NOTHING)
    lines += [f"{run.folder.name} did not end well: {run.message}" for run in runs if run.state != "completed"]
    lines += [f"{run.folder.name}: {note}" for run in runs for note in run.summary.get("observer_notes") or ()]
    silent = silent_ranks(runs)
    return lines + ([f"no training was seen in rank {', '.join(map(str, silent))}"] if silent else [])
