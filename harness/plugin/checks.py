"""How does a pytest item become one row of the exam, with exactly one outcome?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from harness.config import RunOptions, command
from harness.exam.invariants import Judgement
from harness.observe.outcome import Outcome
from harness.report.model import Check
from harness.strict_yaml import typed

ATTRIBUTE = "exam_check"
"""Attribute of a test report: a plain dict, so that it travels from xdist workers to the controller."""

CHECK = pytest.StashKey[Check]()
"""The row of an item as far as it is known."""

OUTCOME = pytest.StashKey[Outcome | None]()
"""How the item ended as far as it is known; None while nothing has decided it."""

BROKEN: frozenset[Outcome | None] = frozenset({"FAILED", "ERROR", "TIMEOUT"})
NOT_PASSED: frozenset[Outcome | None] = frozenset({"SKIPPED", "BLOCKED", "RECORDED", "INCONCLUSIVE"})
"""Outcomes that pytest calls skipped."""

OUT_OF_TIME = "from pytest-timeout"
"""What pytest-timeout writes into the failure of a test that it stops."""


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
        device=getattr(place, "device", "cuda" if item.get_closest_marker("gpu") else ""),
        invariant=str(params.get("invariant", "check")),
        title=doc,
        outcome="SKIPPED",
    )


def begin(item: pytest.Item) -> None:
    """Forget what an earlier attempt at this item left: a plugin may run a test again."""
    item.stash[CHECK] = msgspec.structs.replace(planned(item), id=item.stash[CHECK].id)
    item.stash[OUTCOME] = None


def judge(item: pytest.Item, judgement: Judgement, title: str, options: RunOptions) -> None:
    """Put the numbers of a judgement into the row of an item; ``options`` are those of its runs."""
    item.stash[OUTCOME] = judgement.outcome
    item.stash[CHECK] = msgspec.structs.replace(
        item.stash[CHECK],
        title=title or item.stash[CHECK].title,
        reason=judgement.reason,
        expected=judgement.expected,
        low=judgement.low,
        high=judgement.high,
        observed=judgement.observed,
        unit=judgement.unit,
        commands=[command(spec, options) for spec in judgement.specs],
    )


def settle(item: pytest.Item, report: pytest.TestReport, raised: BaseException | None) -> Check:
    """Bring the row of an item up to date after one phase of its test, and return it."""
    before = item.stash[OUTCOME]
    outcome = _outcome(report, before, raised)
    check = item.stash[CHECK]
    item.stash[OUTCOME] = outcome
    item.stash[CHECK] = msgspec.structs.replace(
        check,
        outcome=outcome or check.outcome,
        reason=check.reason if outcome == before else reason_of(report),
        seconds=check.seconds + report.duration,
    )
    return item.stash[CHECK]


def _outcome(report: pytest.TestReport, before: Outcome | None, raised: BaseException | None) -> Outcome | None:
    """Return the outcome after a phase: pytest's word counts where it is worse than what was decided before."""
    if report.failed:
        return before if before in BROKEN else _why_broken(report, raised)
    if report.skipped:
        return before if before in NOT_PASSED else "SKIPPED"
    return before or ("PASSED" if report.when == "call" else None)


def _why_broken(report: pytest.TestReport, raised: BaseException | None) -> Outcome:
    """Tell "what is checked is wrong", an assertion in the test, from "the check is broken", anything else."""
    if OUT_OF_TIME in str(raised):
        return "TIMEOUT"
    asserted = isinstance(raised, (AssertionError, pytest.fail.Exception))
    return "FAILED" if asserted and report.when == "call" else "ERROR"


def from_report(report: pytest.TestReport) -> Check | None:
    """Read the row from a report; only the last report of a test carries it."""
    data: Any = getattr(report, ATTRIBUTE, None)
    return None if data is None else typed(data, Check, report.nodeid)


def reason_of(report: pytest.TestReport) -> str:
    """Return why a test was skipped or failed, in one line."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = str(getattr(crash, "message", report.longrepr or "")).strip().splitlines()
    return lines[0][:300] if lines else ""


def tally(checks: Iterable[Check]) -> dict[str, int]:
    """Count the outcomes."""
    counts: dict[str, int] = {}
    for check in checks:
        counts[check.outcome] = counts.get(check.outcome, 0) + 1
    return counts
