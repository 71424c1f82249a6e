"""How are checks and incidents arranged on the page? Scenario, then cause, then workload and device."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from markupsafe import Markup

from harness.report import marks
from harness.report.model import Check, Incident, Results, RunView
from harness.report.outcomes import INVARIANTS, Tally
from harness.report.plots import UNTIMED, Canvas, Plot, draw_all
from harness.report.words import measure, measures, number, slug, uniquely

TITLES = {
    "scenario_a": "Mixed precision is faster, but validation quality regresses",
    "scenario_b": "DDP from 1 to 8 GPUs gives a weak speedup",
    "scenario_c": "Out of memory, or unstable throughput, when the effective batch size grows",
    "scenario_d": "High training score, weak generalisation",
}

T = TypeVar("T", Check, Incident)

Place = tuple[str, str, str, str]
"""Scenario, cause, workload, device."""


@dataclass(frozen=True)
class Row:
    """One check as the table shows it; the numbers share one unit."""

    check: Check
    low: str
    high: str
    observed: str
    unit: str


@dataclass(frozen=True)
class RunRow:
    """One run as the table shows it; ``key`` is its letter in the plots."""

    key: str
    swatch: Markup
    run: RunView
    metric: str
    step_time: str
    throughput: str
    peak_memory: str


@dataclass(frozen=True)
class Section:
    """One scenario x cause x workload x device."""

    anchor: str
    workload: str
    device: str
    incident: Incident | None
    tells_incident: bool
    """Whether its checks are the five invariants of an incident, and not a check of their own."""
    marks: list[tuple[str, str]]
    """(check, outcome): the five invariants of an incident, the outcome empty where nothing was planned."""
    rows: list[Row]
    runs: list[RunRow]
    commands: list[tuple[str, str]]
    """(whose, command); each command once."""
    plots: list[Plot]
    untimed: str
    """Said below the runs when their times are no timings."""


@dataclass(frozen=True)
class Cause:
    """One row of the matrix and one fold."""

    name: str
    title: str
    category: str
    tally: Tally
    sections: list[Section]


@dataclass(frozen=True)
class Scenario:
    """One incident family: its causes, and the columns of its part of the matrix."""

    name: str
    title: str
    tally: Tally
    columns: list[tuple[str, str]]
    causes: list[Cause]


def arrange(results: Results) -> list[Scenario]:
    """Return every check and incident once, sorted by name at each level."""
    checks = _grouped(results.checks)
    incidents = _grouped(results.incidents)
    unique = uniquely()
    sections: dict[Place, list[Section]] = {}
    for place in sorted({*checks, *incidents}):
        found: list[Incident | None] = [*incidents.get(place, [])]
        first, *others = found or [None]
        anchor = slug(*place)
        sections[place] = [_section(unique(anchor), place, checks.get(place, []), first)]
        sections[place] += [_section(unique(anchor), place, [], other) for other in others]
    return [_scenario(name, sections) for name in dict.fromkeys(place[0] for place in sections)]


def _grouped(items: Iterable[T]) -> dict[Place, list[T]]:
    groups: dict[Place, list[T]] = {}
    for item in items:
        groups.setdefault((item.scenario, item.cause, item.workload, item.device), []).append(item)
    return groups


def _scenario(name: str, sections: dict[Place, list[Section]]) -> Scenario:
    own = {place: found for place, found in sections.items() if place[0] == name}
    causes = [_cause(cause, [s for place in own if place[1] == cause for s in own[place]]) for cause in _causes(own)]
    return Scenario(
        name=name,
        title=TITLES.get(name, ""),
        tally=Tally.of(row.check.outcome for cause in causes for section in cause.sections for row in section.rows),
        columns=sorted({(place[2], place[3]) for place in own}),
        causes=causes,
    )


def _causes(sections: Iterable[Place]) -> list[str]:
    return list(dict.fromkeys(place[1] for place in sections))


def _cause(name: str, sections: list[Section]) -> Cause:
    incident = next((section.incident for section in sections if section.incident), None)
    return Cause(
        name=name,
        title=incident.title if incident else "",
        category=incident.category if incident else "",
        tally=Tally.of(row.check.outcome for section in sections for row in section.rows),
        sections=sections,
    )


def _section(anchor: str, place: Place, checks: list[Check], incident: Incident | None) -> Section:
    prefix = "p" + hashlib.sha256(anchor.encode()).hexdigest()[:8]
    ordered = sorted(checks, key=_by_invariant)
    runs = incident.runs if incident else []
    told = incident is not None or any(check.invariant in INVARIANTS for check in checks)
    return Section(
        anchor=anchor,
        workload=place[2],
        device=place[3],
        incident=incident,
        tells_incident=told,
        marks=_marks(ordered, INVARIANTS if told else ()),
        rows=[_row(check) for check in ordered],
        runs=[_run_row(index, run) for index, run in enumerate(runs)],
        commands=_commands(ordered, runs),
        plots=draw_all(Canvas(runs, place[3], prefix)),
        untimed="" if all(run.is_timed for run in runs) else UNTIMED,
    )


def _by_invariant(check: Check) -> tuple[int, str, str]:
    known = check.invariant in INVARIANTS
    return (INVARIANTS.index(check.invariant) if known else len(INVARIANTS), check.invariant, check.id)


def _marks(checks: list[Check], invariants: Iterable[str]) -> list[tuple[str, str]]:
    """Return one mark for each of the invariants, planned or not, and for any further check."""
    names = dict.fromkeys([*invariants, *(check.invariant for check in checks)])
    return [(name, Tally.of(check.outcome for check in checks if check.invariant == name).worst) for name in names]


def _row(check: Check) -> Row:
    (low, high, observed), unit = measures([check.low, check.high, check.observed], check.unit)
    return Row(check=check, low=low, high=high, observed=observed, unit=unit)


def _run_row(place: int, run: RunView) -> RunRow:
    throughput = number(run.throughput)
    return RunRow(
        key=marks.key(place),
        swatch=marks.swatch(run.role, place),
        run=run,
        metric=number(run.val_metric),
        step_time=measure(run.step_time_s, "s"),
        throughput=f"{throughput} {run.unit}" if run.throughput is not None else throughput,
        peak_memory=measure(run.peak_memory_bytes, "bytes"),
    )


def _commands(checks: list[Check], runs: list[RunView]) -> list[tuple[str, str]]:
    owned = [(f"{marks.key(index)} {run.role} {run.label}", run.command) for index, run in enumerate(runs)]
    owned += [(f"check {check.invariant}", command) for check in checks for command in check.commands]
    first = {command: whose for whose, command in reversed(owned) if command}
    return [(whose, command) for command, whose in reversed(first.items())]
