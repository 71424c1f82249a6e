"""What do the traces of several ranks of one job say together? Who makes the others wait, and who is missing."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median

import msgspec

from harness.diagnose.diagnosis import merged
from harness.diagnose.finding import NO_BOUND, Evidence, Finding
from harness.trace.diagnosis import PRIMARY, TraceDiagnosis, diagnose_trace
from harness.trace.normal import Trace

EARLY = 0.5
"""A rank that waits less than half as long in collectives as the median does is the one that the others wait for: all
are in the same collectives, and the last to arrive does not wait."""


@dataclass(frozen=True)
class Ranked:
    """The trace of one rank, and what is said of it alone."""

    rank: int
    trace: Trace
    alone: TraceDiagnosis

    @property
    def waiting(self) -> float:
        """Share of the window in collectives that nothing hides."""
        return share(self.alone, "exposed_communication")


def share(diagnosis: TraceDiagnosis, name: str) -> float:
    """Return one of the shares of a window; 0 where the trace could not be judged."""
    value = diagnosis.shares.get(name, 0.0)
    return value if isinstance(value, float) else 0.0


def diagnose_ranks(traces: list[Trace]) -> TraceDiagnosis:
    """Return one diagnosis: a straggler first, then what each rank shows; the shares are means over the ranks."""
    ranks = [
        Ranked(trace.rank if trace.rank is not None else at, trace, diagnose_trace(trace))
        for at, trace in enumerate(traces)
    ]
    ranks.sort(key=lambda one: one.rank)
    judged = [one for one in ranks if one.alone.status in {"diagnosed", "healthy"}]
    if not judged:
        return ranks[0].alone
    together = merged([one.alone for one in judged], each_cause_once=True)
    straggler = _straggler(judged)
    findings = straggler + [finding for finding in together.findings if not straggler or _is_own(finding)]
    missing = together.missing + [entry for one in ranks if one not in judged for entry in one.alone.missing]
    largest = max(judged, key=lambda one: float(one.alone.window["length_us"]))
    return msgspec.structs.replace(
        largest.alone,
        status="diagnosed" if findings else "healthy",
        findings=findings,
        missing=missing,
        shares=_means([one.alone for one in judged]),
        ranks={str(one.rank): one.alone.shares for one in ranks},
        absent=_absent(ranks),
    )


def _is_own(finding: Finding) -> bool:
    """Whether a finding is more than the waiting for the straggler."""
    return finding.category != "communication"


def _straggler(ranks: list[Ranked]) -> list[Finding]:
    if len(ranks) < 2:
        return []
    waits = median(one.waiting for one in ranks)
    if len(ranks) == 2:
        waits = max(one.waiting for one in ranks)
    last = min(ranks, key=lambda one: one.waiting)
    if waits < PRIMARY or last.waiting >= EARLY * waits:
        return []
    own = last.alone.findings
    why = f" Its own largest loss is {own[0].category}: {own[0].cause}." if own else " By itself it loses little time."
    return [
        Finding(
            category="straggler",
            cause="straggler_rank",
            confidence=0.8,
            summary=(
                f"The ranks wait in collectives for {waits:.0%} of their time, rank {last.rank} for "
                f"{last.waiting:.0%}: it comes last, and the others wait for it.{why}"
            ),
            evidence=[
                _waiting("waiting_of_the_last", last.waiting, f"< {EARLY * waits:.3g}", last.trace.file),
                _waiting("waiting_of_the_others", waits, NO_BOUND, "all ranks"),
            ],
            confirm="Give all ranks the same batch: if it is the same rank again, it is the machine, else the data.",
            action="Look at that rank's own losses first; compare its clocks and its input with those of the others.",
        )
    ]


def _waiting(name: str, value: float, threshold: str, source: str) -> Evidence:
    return Evidence(name=name, value=value, unit="share", threshold=threshold, source=source)


def _means(diagnoses: list[TraceDiagnosis]) -> dict[str, float | dict[str, float]]:
    found: dict[str, float | dict[str, float]] = {}
    for name, first in diagnoses[0].shares.items():
        if isinstance(first, float):
            found[name] = fmean(share(diagnosis, name) for diagnosis in diagnoses)
        else:
            parts = [part for diagnosis in diagnoses if isinstance(part := diagnosis.shares[name], dict)]
            found[name] = {key: fmean(part[key] for part in parts) for key in first}
    return found


def _absent(ranks: list[Ranked]) -> list[int]:
    """Return the ranks of the job whose trace was not given."""
    size = max((one.trace.num_ranks or 0 for one in ranks), default=0)
    return sorted(set(range(size)) - {one.rank for one in ranks})
