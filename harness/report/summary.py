"""What does the head of the page say? One sentence that never claims more than was measured, and its qualifications."""

from __future__ import annotations

from dataclasses import dataclass

from harness.report.model import Results
from harness.report.outcomes import EXECUTED, Tally
from harness.report.words import NOTHING, elapsed, flatten

KINDS = {
    "cuda": "real GPUs: the only kind that is GPU evidence",
    "cpu": "real numerics on host cores, no GPU evidence",
    "emulated": "accelerators paced on host cores: shows the method, no GPU evidence",
}

TRUST = {"SELF-RUN": "produced by the person who ran it, not proctored"}

_TELLING = (
    "gpus",
    "driver",
    "cuda",
    "nccl",
    "cpu",
    "cores_available",
    "memory_gib",
    "torch",
    "python",
    "os",
    "git_commit",
)
"""Last parts of the environment names that the head repeats, in this order."""


@dataclass(frozen=True)
class Summary:
    """The head of the page."""

    headline: str
    tone: str
    """good, warn or bad."""
    notes: list[str]
    tally: Tally
    kinds: list[tuple[str, str]]
    """(device kind, what it proves)."""
    trust_meaning: str
    environment: list[tuple[str, str]]
    duration: str


def summarise(results: Results) -> Summary:
    """Return the head of the page."""
    tally = Tally.of(check.outcome for check in results.checks)
    headline, tone = _headline(results, tally)
    kinds = sorted({_kind(device) for device in _devices(results)})
    return Summary(
        headline=headline,
        tone=tone,
        notes=_notes(results, tally),
        tally=tally,
        kinds=[(kind, KINDS.get(kind, "unknown kind, no GPU evidence")) for kind in kinds],
        trust_meaning=TRUST.get(results.trust, "as stated by whoever produced this report"),
        environment=_telling(results),
        duration=elapsed(results.started, results.ended),
    )


def _headline(results: Results, tally: Tally) -> tuple[str, str]:
    if results.executed == 0:
        return _nothing(results), "bad"
    broken = [f"{tally[name]} {name}" for name in ("FAILED", "ERROR", "TIMEOUT") if tally[name]]
    if broken:
        return f"{', '.join(broken)} among {_checks(results.planned, 'planned ')}", "bad"
    if not tally["PASSED"] == tally.total == results.planned == results.executed:
        return f"{tally['PASSED']} of {_checks(results.planned, 'planned ')} passed, none failed", "warn"
    healthy = results.gate is not None and results.gate.outcome == "PASSED"
    tone = "good" if healthy and results.gpu_executed == results.gpu_planned else "warn"
    return f"{'All ' if results.planned > 1 else ''}{_checks(results.planned, 'planned ')} passed", tone


def _nothing(results: Results) -> str:
    stopped = results.gate is not None and results.gate.outcome in {"FAILED", "ERROR", "TIMEOUT"}
    cause = "The integrity gate stopped the session: " if stopped else ""
    return f"{cause}0 of {_checks(results.planned)} executed. Zero executed checks is not a success."


def _notes(results: Results, tally: Tally) -> list[str]:
    notes = [_gpu_note(results)]
    if results.gate is None:
        notes.append("The integrity gate did not run: nothing shows that the device was healthy.")
    elif results.gate.outcome != "PASSED":
        notes.append(f"The integrity gate ended as {results.gate.outcome}: read its remedies first.")
    if 0 < results.executed < results.planned:
        notes.append(f"{_checks(results.planned - results.executed, 'planned ')} did not execute.")
    if tally.total != results.planned:
        notes.append(
            f"{_checks(results.planned, 'planned ')}, but {tally.total} have a result: the session is incomplete."
        )
    unproven = [f"{tally[name]} {name}" for name in ("RECORDED", "INCONCLUSIVE") if tally[name]]
    if unproven:
        notes.append(f"{' and '.join(unproven)}: measured, and not counted as passed.")
    return notes


def _gpu_note(results: Results) -> str:
    if results.gpu_planned == 0:
        return "No GPU check was planned: this report holds no GPU evidence."
    executed = f"{results.gpu_executed} of {_checks(results.gpu_planned, 'GPU ')} executed"
    return f"{executed}: this report holds no GPU evidence." if results.gpu_executed == 0 else f"{executed}."


def _checks(count: int, kind: str = "") -> str:
    return f"{count} {kind}check{'' if count == 1 else 's'}"


def _devices(results: Results) -> set[str]:
    """Return the devices on which something was executed: a check that was skipped proves nothing about its kind."""
    runs = {run.device for incident in results.incidents for run in incident.runs}
    return {check.device for check in results.checks if check.outcome in EXECUTED} | runs


def _kind(device: str) -> str:
    """Return ``cuda`` for ``cuda``, ``cuda:0`` or ``cuda x 8``."""
    return device.replace(":", " ").split(" ")[0] or "not stated"


def _telling(results: Results) -> list[tuple[str, str]]:
    rows = flatten(results.environment)
    found = {name.rsplit(".", 1)[-1].lower(): value for name, value in reversed(rows) if value != NOTHING}
    return [(key.replace("_", " "), found[key]) for key in _TELLING if key in found]
