"""What has this session found so far? Rows and evidence as they come, and the report at the end."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.experiment.store import RunStore
from harness.observe.clock import utc_now
from harness.observe.environment import fingerprint
from harness.observe.evidence import EvidenceLog
from harness.observe.outcome import Gate
from harness.plugin.checks import tally
from harness.plugin.evidence import Kept, entry
from harness.plugin.options import Options
from harness.plugin.story import confusion, incidents
from harness.report.model import Check, Results
from harness.report.page import write_report

EXECUTED = {"PASSED", "FAILED", "RECORDED", "INCONCLUSIVE", "TIMEOUT", "ERROR"}
"""Outcomes of checks that ran."""


class Ledger:
    """The rows of one session; it lives in the controller."""

    def __init__(self, options: Options, gate: Gate, started: str, command: str) -> None:
        self.options, self.gate, self.started, self.command = options, gate, started, command
        self.environment = fingerprint()
        self.log = EvidenceLog.open(options.out)
        self.log.environment(self.environment)
        self.checks: list[Check] = []
        self.report: Path | None = None
        self.finished = False

    def add(self, check: Check, kept: Kept) -> None:
        """Write one finished check into the evidence."""
        environment = self.log.environment(kept.fingerprint or self.environment)
        seq = self.log.append(entry(check, kept, environment))
        self.checks.append(_with_evidence(check, seq))

    def finish(self, store: RunStore) -> None:
        """Close the evidence with its terminal record and write the report."""
        if self.finished:
            return
        self.finished = True
        head = self.log.close(self.planned, self.executed)
        shown = incidents(self.checks, self.options, store)
        results = Results(
            command=self.command,
            started=self.started,
            ended=utc_now(),
            environment=self.environment,
            gate=self.gate,
            planned=self.planned,
            executed=self.executed,
            gpu_planned=self.gpu_planned,
            gpu_executed=_count(self.checks, EXECUTED, "cuda"),
            checks=self.checks,
            incidents=shown,
            confusion=confusion(self.checks, self.options, store),
            evidence_records=self.log.num_records,
            evidence_head=head,
        )
        self.report = write_report(results, self.options.out)

    @property
    def planned(self) -> int:
        """Checks that were selected."""
        return len(self.checks)

    @property
    def executed(self) -> int:
        """Checks that ran."""
        return _count(self.checks, EXECUTED)

    @property
    def gpu_planned(self) -> int:
        """Checks that need a GPU."""
        return sum(check.device == "cuda" for check in self.checks)

    def headlines(self) -> list[str]:
        """Return what a person must know first."""
        gpu = _count(self.checks, EXECUTED, "cuda")
        outcomes = ", ".join(f"{count} {name}" for name, count in sorted(tally(self.checks).items()))
        lines = [f"{self.executed} of {self.planned} checks executed: {outcomes or 'none'}"]
        if self.gpu_planned:
            lines.append(f"{gpu} of {self.gpu_planned} GPU checks executed")
        if not self.executed:
            lines.append("zero executed checks is not a success")
        return lines


def _count(checks: Iterable[Check], outcomes: set[str], device: str = "") -> int:
    return sum(check.outcome in outcomes and device in {"", check.device} for check in checks)


def _with_evidence(check: Check, seq: int) -> Check:
    import msgspec

    return msgspec.structs.replace(check, evidence=[seq])
