"""How does a pytest report become one row of the exam, with exactly one outcome?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from harness.exam.invariants import Judgement
from harness.observe.outcome import Outcome
from harness.report.model import Check
from harness.strict_yaml import typed

ATTRIBUTE = "exam_check"
"""Attribute of a test report: a plain dict, so that it travels from xdist workers to the controller."""

CHECK = pytest.StashKey[Check]()


def planned(item: pytest.Item) -> Check:
    """Return the row of a check that has not run."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    place = params.get("place") or params.get("base_place")
    doc = (getattr(getattr(item, "function", None), "__doc__", "") or item.name).strip().splitlines()[0]
    return Check(
        id=item.nodeid,
        scenario=getattr(place, "scenario", item.path.stem.removeprefix("test_")),
        cause=getattr(place, "cause", item.name.partition("[")[0].removeprefix("test_")),
        workload=getattr(place, "workload", ""),
        device=getattr(place, "device", ""),
        invariant=str(params.get("invariant", "check")),
        title=doc,
        outcome="SKIPPED",
    )


def judged(check: Check, judgement: Judgement, title: str) -> Check:
    """Return the row with the numbers of a judgement."""
    data = {name: getattr(check, name) for name in check.__struct_fields__}
    return Check(
        **data
        | {
            "title": title or check.title,
            "outcome": judgement.outcome,
            "reason": judgement.reason,
            "expected": judgement.expected,
            "low": judgement.low,
            "high": judgement.high,
            "observed": judgement.observed,
            "unit": judgement.unit,
            "commands": judgement.commands,
        }
    )


def outcome_of(report: pytest.TestReport, judged_as: Outcome) -> Outcome:
    """Return the outcome of a row: pytest's word counts where it is worse than the judgement."""
    if report.failed:
        return judged_as if judged_as in {"FAILED", "ERROR", "TIMEOUT"} else "ERROR"
    if report.skipped:
        return judged_as if judged_as in {"BLOCKED", "RECORDED", "INCONCLUSIVE"} else "SKIPPED"
    return "PASSED" if judged_as == "PASSED" else judged_as


def from_report(report: pytest.TestReport) -> Check | None:
    """Read the row from a report: of the call, or of a setup that kept it from running."""
    data: Any = getattr(report, ATTRIBUTE, None)
    if data is None or (report.when != "call" and not (report.when == "setup" and not report.passed)):
        return None
    return typed(data, Check, report.nodeid)


def reason_of(report: pytest.TestReport) -> str:
    """Return why a test was skipped or failed, in one line."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(getattr(crash, "message", report.longrepr or "")).splitlines()[0][:300] if report.longrepr else ""


def tally(checks: Iterable[Check]) -> dict[str, int]:
    """Count the outcomes."""
    counts: dict[str, int] = {}
    for check in checks:
        counts[check.outcome] = counts.get(check.outcome, 0) + 1
    return counts
