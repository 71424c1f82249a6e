"""What happens in an exam session? Gate first, then the checks, then evidence and report.

The gate, the evidence log and the report live in the controller; xdist workers only run checks and
send their rows back.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from harness.devices.gate.host import GateKind
from harness.devices.gate.run import run_gate
from harness.devices.leases import usable_cores
from harness.experiment.store import Prefetch, RunStore
from harness.observe.clock import utc_now
from harness.observe.outcome import Gate
from harness.plugin import fixtures
from harness.plugin.checks import ATTRIBUTE, CHECK, from_report, outcome_of, planned, reason_of
from harness.plugin.evidence import Kept
from harness.plugin.ledger import Ledger
from harness.plugin.options import Options
from harness.plugin.places import BasePlace, Place
from harness.strict_yaml import typed

KEPT_ATTRIBUTE = "exam_evidence"

EXIT_GATE = 3
"""Exit status of a session that the integrity gate stopped."""


class ExamSession:
    """The plugin object of one session, in the controller and in each worker."""

    def __init__(self, config: pytest.Config, options: Options) -> None:
        self.config, self.options = config, options
        self.is_worker = hasattr(config, "workerinput")
        self.is_parallel = bool(config.getoption("numprocesses", None)) or self.is_worker
        self.collect_only = bool(config.getoption("collectonly"))
        self.store = RunStore(options.out / "runs")
        self.prefetch: Prefetch | None = None
        self.ledger: Ledger | None = None
        config.stash[fixtures.STORE], config.stash[fixtures.OUT] = self.store, options.out
        config.pluginmanager.register(fixtures, "gpu-exam-fixtures")
        if not self.is_worker and not self.collect_only and not config.option.xmlpath:
            config.option.xmlpath = str(options.out / "junit.xml")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Run the integrity gate once, in the controller, before anything is measured."""
        if self.is_worker or self.collect_only:
            return
        self.options.out.mkdir(parents=True, exist_ok=True)
        kind: GateKind = "cuda" if self.options.gpus and "cuda" in self.options.kinds else "cpu"
        gate = run_gate(kind, self.options.overrides["devices"], self.options.out)
        self.ledger = Ledger(self.options, gate, utc_now(), " ".join(("pytest", *self.config.invocation_params.args)))
        if gate.outcome != "PASSED":
            self.ledger.finish(self.store)
            pytest.exit(_told(gate), returncode=EXIT_GATE)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell an xdist worker where the session's folder is."""
        node.workerinput["gpu_exam_out"] = str(self.options.out)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Skip what needs a GPU where there is none, and keep an incident's checks on one worker."""
        for item in items:
            item.stash[CHECK] = planned(item)
            if item.get_closest_marker("gpu") and not self.options.gpus:
                item.add_marker(pytest.mark.skip(reason="no GPU is visible here; gpu-exam doctor says why"))
            if self.is_parallel:
                item.add_marker(pytest.mark.xdist_group(f"{item.stash[CHECK].cause}"))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Start to execute the runs that the selected checks need."""
        if self.collect_only or self.is_parallel:
            return
        specs = [spec for item in session.items for spec in self._specs(item)]
        self.prefetch = Prefetch(self.store, specs, usable_cores()) if specs else None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Any:
        """Attach the row and its evidence to the report, as plain data that can travel between processes."""
        report = yield
        check = item.stash.get(CHECK, None)
        if check is not None:
            outcome = outcome_of(report, check.outcome)
            reason = check.reason or reason_of(report)
            row = msgspec.structs.replace(check, outcome=outcome, reason=reason, seconds=report.duration)
            setattr(report, ATTRIBUTE, msgspec.to_builtins(row))
            setattr(report, KEPT_ATTRIBUTE, msgspec.to_builtins(item.stash.get(fixtures.KEPT, Kept())))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the row into the evidence as soon as it is known."""
        check = None if self.is_worker else from_report(report)
        if check is not None and self.ledger is not None:
            self.ledger.add(check, typed(getattr(report, KEPT_ATTRIBUTE), Kept, report.nodeid))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Close the evidence, write the report, and never call zero executed checks a success."""
        if self.prefetch is not None:
            self.prefetch.stop()
        if self.ledger is None:
            return
        self.ledger.finish(self.store)
        if exitstatus == pytest.ExitCode.OK and not self.ledger.executed and not self._excused():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say how much was executed."""
        if self.ledger is not None:
            terminalreporter.section("gpu-exam")
            for line in self.ledger.headlines():
                terminalreporter.write_line(line)

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Print the path of the report last."""
        if self.ledger is not None and self.ledger.report is not None:
            config.get_terminal_writer().line(f"report: {self.ledger.report}")

    def _excused(self) -> bool:
        ledger = self.ledger
        return self.options.allow_no_gpu and ledger is not None and 0 < ledger.gpu_planned == ledger.planned

    def _specs(self, item: pytest.Item) -> list[Any]:
        """Return the runs of an item that can be executed ahead: those on the host's cores."""
        params = getattr(getattr(item, "callspec", None), "params", {})
        place = params.get("place") or params.get("base_place")
        if not isinstance(place, (Place, BasePlace)) or place.device != "cpu":
            return []
        return place.specs(self.store)


def _told(gate: Gate) -> str:
    failed = [check for check in gate.checks if check.outcome == "FAILED"]
    lines = [f"{check.name}: {check.observed}; expected {check.expected}. Remedy: {check.remedy}" for check in failed]
    return "the integrity gate failed, nothing was measured: " + json.dumps(lines, ensure_ascii=False)
