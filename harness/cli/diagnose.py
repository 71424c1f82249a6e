"""``gpu-exam diagnose RUN``: what is wrong with this run, from its records or from the logs of any program?"""

from __future__ import annotations

import msgspec

from harness.cli.flags import Flags
from harness.cli.given import known_part, readable_run, unusable_lines
from harness.cli.logs import are_files, diagnose_files
from harness.cli.terminal import say
from harness.diagnose.diagnosis import diagnose
from harness.diagnose.finding import Diagnosis, Finding
from harness.diagnose.observations import Observations
from harness.observe.recorder import standard
from harness.runs import Run

EXIT_CODES = {"healthy": 0, "diagnosed": 1, "not_enough_evidence": 3, "inconclusive": 3}
"""Unusable input is 2."""


def run(words: list[str]) -> int:
    """Diagnose one run folder or log files, against a reference when one is given."""
    parser = Flags("gpu-exam diagnose", "Name what is wrong with a run, with the evidence that decided it.")
    parser.add_argument(
        "run", metavar="RUN", nargs="+", help="a run folder of train.py or compare; or log files of any program"
    )
    parser.add_argument("--reference", metavar="RUN", help="the same run in fp32; or the log to compare with")
    parser.add_argument("--declared", default="precision", metavar="PART,PART", help="what may differ between the two")
    parser.add_argument("--json", action="store_true", help="print JSON instead of words")
    args = parser.read(words)
    if are_files(args.run):
        return EXIT_CODES[diagnose_files(args.run, args.reference, as_json=args.json).status]
    declared = [known_part(name, "--declared") for name in args.declared.split(",")]
    reference = readable_run(args.reference) if args.reference else None
    found = readable_run(args.run[0])
    result = diagnose(Observations(found, reference, declared))
    say(as_json(result) if args.json else "\n".join([*_ended(found), as_words(result)]))
    return EXIT_CODES[result.status]


def as_json(result: Diagnosis) -> str:
    """Return the diagnosis as JSON."""
    return msgspec.json.format(msgspec.json.encode(standard(msgspec.to_builtins(result))), indent=2).decode()


def as_words(result: Diagnosis) -> str:
    """Return the diagnosis as a person reads it."""
    lines = [f"status: {result.status.replace('_', ' ')}"]
    for finding in result.findings:
        lines += _told(finding)
    if result.status == "healthy" and result.missing:
        unknown = ", ".join(f"{missing.needed_for} ({missing.command})" for missing in result.missing)
        lines.append(f"could not be checked: {unknown}")
    elif result.missing:
        for missing in result.missing:
            lines.append(f"missing for {missing.needed_for}: {missing.observation}; to get it: {missing.command}")
    if result.checked:
        lines.append(f"checked: {', '.join(result.checked)}")
    return "\n".join(lines)


def _ended(run: Run) -> list[str]:
    """Say what a reader must know of the run itself: that it did not end well, or that its records are damaged."""
    lines = [f"run: {run.state}: {run.message}"] if run.state != "completed" else []
    damaged = unusable_lines(run)
    return lines + ([f"damaged: {damaged} line(s) of its records cannot be read"] if damaged else [])


def _told(finding: Finding) -> list[str]:
    numbers = [
        f"    {e.name} = {' '.join(filter(None, [_value(e.value), e.unit]))} (bound {e.threshold}; {e.source})"
        for e in finding.evidence
    ]
    return [
        "",
        f"{finding.category}: {finding.cause} (confidence {finding.confidence:.0%})",
        f"  {finding.summary}",
        *numbers,
        f"  to confirm: {finding.confirm}",
        f"  to do: {finding.action}",
        "",
    ]


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
