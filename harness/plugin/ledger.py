"""What has this session found so far? Rows and evidence as they come, and the report at the end."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from harness.experiment.store import RunStore
from harness.observe.clock import utc_now
from harness.observe.environment import fingerprint
from harness.observe.evidence import EvidenceLog
from harness.observe.outcome import Gate
from harness.plugin.checks import tally
from harness.plugin.evidence import Kept, entry
from harness.plugin.options import Options
from harness.plugin.plan import PLAN_NAME, read_plan
from harness.plugin.story import confusion, incidents
from harness.report.model import Check, Results
from harness.report.outcomes import EXECUTED
from harness.report.page import write_report

NOT_REACHED = "the session stopped before this check had run"


class Ledger:
    """The rows of one session; it lives in the controller."""

    def __init__(self, options: Options, gate: Gate, started: str, command: str) -> None:
        self.options, self.gate, self.started, self.command = options, gate, started, command
        self.environment = fingerprint()
        self.log = EvidenceLog.open(options.out)
        self.log.environment(self.environment)
        # The selection of an earlier session whose evidence somebody removed is not ours.
        (options.out / PLAN_NAME).unlink(missing_ok=True)
        self.rows: dict[str, Check] = {}
        """pytest's id -> row; each check has exactly one."""
        self.report: Path | None = None
        self.finished = False

    def add(self, nodeid: str, check: Check, kept: Kept) -> None:
        """Write one finished check into the evidence."""
        if nodeid in self.rows:
            return
        environment = self.log.environment(kept.fingerprint or self.environment)
        seq = self.log.append(entry(check, kept, environment))
        self.rows[nodeid] = msgspec.structs.replace(check, evidence=[seq])

    def lost(self, nodeid: str, reason: str) -> None:
        """Write down a check whose process died under it."""
        check = read_plan(self.options.out).get(nodeid)
        if check is not None:
            self.add(nodeid, msgspec.structs.replace(check, outcome="ERROR", reason=reason), Kept())

    def finish(self, store: RunStore) -> None:
        """Give every selected check its outcome, close the evidence and write the report."""
        if self.finished:
            return
        self.finished = True
        self._complete()
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
            gpu_executed=_executed(self.checks, "cuda"),
            checks=self.checks,
            incidents=shown,
            confusion=confusion(self.checks, self.options, store),
            evidence_records=self.log.num_records,
            evidence_head=head,
        )
        self.report = write_report(results, self.options.out)

    @property
    def checks(self) -> list[Check]:
        """The rows so far."""
        return list(self.rows.values())

    @property
    def planned(self) -> int:
        """Checks that were selected."""
        return len(self.rows)

    @property
    def executed(self) -> int:
        """Checks that ran."""
        return _executed(self.checks)

    @property
    def gpu_planned(self) -> int:
        """Checks that need a GPU."""
        return sum(check.device == "cuda" for check in self.checks)

    @property
    def excused(self) -> bool:
        """Whether zero executed checks are no failure: the user said so, and every check needs a GPU."""
        return self.options.allow_no_gpu and not self.options.gpus and 0 < self.gpu_planned == self.planned

    def headlines(self) -> list[str]:
        """Return what a person must know first."""
        gpu = _executed(self.checks, "cuda")
        outcomes = ", ".join(f"{count} {name}" for name, count in sorted(tally(self.checks).items()))
        lines = [f"{self.executed} of {self.planned} checks executed: {outcomes or 'none'}"]
        if self.gpu_planned:
            lines.append(f"{gpu} of {self.gpu_planned} GPU checks executed")
        if not self.executed:
            lines.append("--allow-no-gpu accepts this" if self.excused else "zero executed checks is not a success")
        return lines

    def _complete(self) -> None:
        """Add the checks that a session which stopped early did not reach, and bring all into their planned order."""
        plan = read_plan(self.options.out)
        for nodeid, check in plan.items():
            self.add(nodeid, msgspec.structs.replace(check, reason=NOT_REACHED), Kept())
        self.rows = {nodeid: self.rows[nodeid] for nodeid in [*plan, *self.rows] if nodeid in self.rows}


def _executed(checks: Iterable[Check], device: str = "") -> int:
    return sum(check.outcome in EXECUTED and device in {"", check.device} for check in checks)
