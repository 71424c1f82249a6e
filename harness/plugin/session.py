"""What happens in an exam session? Gate first, then the checks, then evidence and report.

The gate, the evidence log and the report live in the controller; xdist workers only run checks and
send their rows back.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from markupsafe import escape

from harness.config import RunSpec
from harness.devices.gate.host import GateKind
from harness.devices.gate.run import run_gate
from harness.devices.leases import usable_cores
from harness.errors import HarnessError
from harness.experiment.store import Prefetch, RunStore
from harness.observe.clock import utc_now
from harness.observe.outcome import Gate
from harness.plugin import fixtures
from harness.plugin.checks import ATTRIBUTE, CHECK, OUTCOME, begin, from_report, planned, settle
from harness.plugin.evidence import Kept
from harness.plugin.html_extras import html_extras
from harness.plugin.ledger import Ledger
from harness.plugin.options import Options
from harness.plugin.places import BasePlace, Place
from harness.plugin.plan import write_plan
from harness.report.words import clean
from harness.strict_yaml import typed

KEPT_ATTRIBUTE = "exam_evidence"

RUN_LIMIT_S = 600.0
"""Seconds that one run of a session may take: ours take one second, and a session must not hang on one run."""

EXIT_GATE = 3
"""Exit status of a session that the integrity gate stopped."""

PHASES = {"setup", "call", "teardown"}
"""Reports of anything else are xdist's, about a worker that died."""


class ExamSession:
    """The plugin object of one session, in the controller and in each worker."""

    def __init__(self, config: pytest.Config, options: Options) -> None:
        self.config, self.options = config, options
        self.is_worker = hasattr(config, "workerinput")
        self.is_parallel = bool(config.getoption("numprocesses", None)) or self.is_worker
        self.store = RunStore(options.out / "runs", options.run_options, limit_s=RUN_LIMIT_S)
        self.prefetch: Prefetch | None = None
        self.ledger: Ledger | None = None
        config.stash[fixtures.STORE], config.stash[fixtures.OUT] = self.store, options.out
        config.pluginmanager.register(fixtures, "gpu-exam-fixtures")
        if not self.is_worker and not options.only_looks and not config.option.xmlpath:
            config.option.xmlpath = str(options.out / "junit.xml")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Run the integrity gate once, in the controller, before anything is measured."""
        if self.is_worker or self.options.only_looks:
            return
        try:
            self.ledger = self._opened()
        except HarnessError as error:
            raise pytest.UsageError(str(error)) from error
        if self.ledger.gate.outcome != "PASSED":
            self.ledger.finish(self.store)
            pytest.exit(_told(self.ledger.gate), returncode=EXIT_GATE)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell an xdist worker where the session's folder is."""
        node.workerinput["gpu_exam_out"] = str(self.options.out)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Skip what needs a GPU where there is none."""
        for item in items:
            item.stash[CHECK], item.stash[OUTCOME] = planned(item), None
            if item.get_closest_marker("gpu") and self.options.why_no_gpu:
                item.add_marker(pytest.mark.skip(reason=self.options.why_no_gpu))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write down what was selected, and start to execute the runs that it needs."""
        if self.options.only_looks:
            return
        write_plan(self.options.out, session.items)
        runs = [] if self.is_parallel else [run for item in session.items for run in self._runs(item)]
        self.prefetch = Prefetch(self.store, runs, usable_cores()) if runs else None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> Any:
        """Attach the row and its evidence to the last report, as plain data that can travel between processes."""
        report = yield
        if CHECK not in item.stash:
            return report
        if call.when == "setup":
            begin(item)
            item.stash[fixtures.KEPT] = Kept()
        row = settle(item, report, call.excinfo.value if call.excinfo else None)
        if call.when == "teardown":
            setattr(report, ATTRIBUTE, msgspec.to_builtins(row))
            setattr(report, KEPT_ATTRIBUTE, msgspec.to_builtins(item.stash[fixtures.KEPT]))
            # junit.xml knows passed, failed and skipped only
            report.user_properties.append(("outcome", row.outcome))
            report.extras = [*getattr(report, "extras", []), *html_extras(row, self.config, self.options.out)]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the row into the evidence as soon as it is known."""
        if self.is_worker or self.ledger is None:
            return
        if report.when not in PHASES:
            self.ledger.lost(report.nodeid, str(report.longrepr))
        elif (check := from_report(report)) is not None:
            self.ledger.add(report.nodeid, check, typed(getattr(report, KEPT_ATTRIBUTE), Kept, report.nodeid))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Close the evidence, write the report, and never call zero executed checks a success."""
        try:
            if self.prefetch is not None:
                self.prefetch.stop(abandon=exitstatus == pytest.ExitCode.INTERRUPTED)
        finally:
            # A second Ctrl-C may end the wait for the runs; what was found stays.
            self._finish(session, exitstatus)

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_row(self, report: pytest.TestReport, cells: list[str]) -> None:
        """Escape what pytest-html does not: the id of a test can hold what a user wrote."""
        cells[:] = [cell.replace(report.nodeid, str(escape(report.nodeid))) for cell in cells]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say how much was executed."""
        if self.ledger is not None:
            terminalreporter.section("gpu-exam")
            for line in self.ledger.headlines():
                terminalreporter.write_line(line)

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Print the path of the report last."""
        if self.ledger is not None and self.ledger.report is not None and config.pluginmanager.hasplugin("terminal"):
            config.get_terminal_writer().line(f"report: {self.ledger.report}")

    def _opened(self) -> Ledger:
        self.options.make_out()
        started = utc_now()
        kind: GateKind = "cuda" if self.options.gpus and "cuda" in self.options.kinds else "cpu"
        gate = run_gate(kind, self.options.devices, self.options.out)
        return Ledger(self.options, gate, started, " ".join(("pytest", *self.config.invocation_params.args)))

    def _finish(self, session: pytest.Session, exitstatus: int) -> None:
        if self.ledger is None:
            return
        self.ledger.finish(self.store)
        if exitstatus == pytest.ExitCode.OK and not (self.ledger.executed or self.ledger.excused):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _runs(self, item: pytest.Item) -> list[tuple[RunSpec, int]]:
        """Return the runs of an item that can be executed ahead: those on the host's cores."""
        params = getattr(getattr(item, "callspec", None), "params", {})
        place = params.get("place") or params.get("base_place")
        if not isinstance(place, (Place, BasePlace)) or place.device != "cpu":
            return []
        return place.runs(self.store)


def _told(gate: Gate) -> str:
    """Return the failed checks as a person reads them: what, what was expected, what to do."""
    lines = ["the integrity gate failed, nothing was measured"]
    for check in gate.checks:
        if check.outcome == "FAILED":
            told = f"  {check.name}: {check.observed} (expected: {check.expected})", f"    remedy: {check.remedy}"
            lines += [clean(" ".join(line.splitlines())) for line in told]
    return "\n".join(lines)
