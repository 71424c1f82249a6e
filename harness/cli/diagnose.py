"""``gpu-exam diagnose RUN``: what is wrong with this run, from its records or from the logs of any program?"""

from __future__ import annotations

from pathlib import Path

from harness.cli.flags import Flags
from harness.cli.given import (
    add_known,
    is_watched,
    known_findings,
    known_part,
    readable_run,
    unusable_lines,
    watched_runs,
)
from harness.cli.logs import are_files, diagnose_files
from harness.cli.telemetry import diagnose_telemetry_files, require_files, telemetry_among
from harness.cli.terminal import say
from harness.cli.traces import diagnose_trace_files, traces_among
from harness.cli.words import EXIT_CODES, as_json, as_words, no_longer_found
from harness.diagnose.diagnosis import diagnose
from harness.diagnose.observations import Observations
from harness.runs import Run
from harness.watch.diagnosis import diagnose_processes


def run(words: list[str]) -> int:
    """Diagnose one run folder or log files, against a reference when one is given."""
    parser = Flags("gpu-exam diagnose", "Name what is wrong with a run, with the evidence that decided it.")
    parser.add_argument(
        "run",
        metavar="RUN",
        nargs="+",
        help="a run folder; log files of any program, telemetry of GPUs (nvidia-smi, dcgmi), lines of NCCL; or traces "
        "of a profiler, one for each rank",
    )
    parser.add_argument("--reference", metavar="RUN", help="the same run in fp32; or the log to compare with")
    parser.add_argument("--declared", default="precision", metavar="PART,PART", help="what may differ between the two")
    parser.add_argument("--json", action="store_true", help="print JSON instead of words")
    parser.add_argument("--verbose", action="store_true", help="tell everything, and where each number was read")
    add_known(parser, "they do not count")
    args = parser.read(words)
    known = known_findings(args.known)
    if traces := traces_among(args.run):
        return EXIT_CODES[diagnose_trace_files(traces, json=args.json, verbose=args.verbose).status]
    if kinds := telemetry_among(args.run):
        require_files(args.run, args.reference)
        return EXIT_CODES[diagnose_telemetry_files(kinds, known, json=args.json, verbose=args.verbose).status]
    if are_files(args.run):
        result = diagnose_files(args.run, args.reference, known, json=args.json, verbose=args.verbose)
        return EXIT_CODES[result.status]
    declared = [known_part(name, "--declared") for name in args.declared.split(",")]
    runs = watched_runs(Path(args.run[0])) if is_watched(Path(args.run[0])) else [readable_run(args.run[0])]
    if args.reference:
        result = diagnose(Observations(runs[0], readable_run(args.reference), declared), known)
    else:
        result = diagnose_processes(runs, known)
    told = [*_ended(runs), *as_words(result, verbose=args.verbose), *no_longer_found(known, result)]
    say(as_json(result) if args.json else "\n".join(told))
    return EXIT_CODES[result.status]


def _ended(runs: list[Run]) -> list[str]:
    """Say what a reader must know of the runs themselves: that one did not end well, or that records are damaged."""
    lines = [f"run: {run.state}: {run.message}" for run in runs if run.state != "completed"]
    damaged = sum(map(unusable_lines, runs))
    return lines + ([f"damaged: {damaged} line(s) of its records cannot be read"] if damaged else [])
