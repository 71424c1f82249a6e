"""What must hold for an incident to be proof of its cause? The five diagnostic invariants, in their order.

Each returns a judgement and never raises for a number that is wrong: a missing or NaN number fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.config import RunSpec
from harness.diagnose.comparable import undeclared_differences
from harness.exam.incident import Incident
from harness.exam.keys import Change
from harness.observe.outcome import Outcome
from harness.runs import Run, relative_loss


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """How one check ended, with the numbers that decided it."""

    outcome: Outcome
    expected: str
    observed: float | str | None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    reason: str = ""
    specs: list[RunSpec] = field(default_factory=list)
    """The runs behind it."""


def control(incident: Incident) -> Judgement:
    """The healthy twin shows no finding."""
    broken = unfit(incident.reference, incident.reference_spec) or unfit(incident.control, incident.control_spec)
    if broken:
        return broken
    diagnosis = incident.diagnose(incident.control)
    value = incident.observed(incident.control)
    inside = _within(incident, value)
    found = ", ".join(finding.cause for finding in diagnosis.findings) or diagnosis.status
    low, high = _band(incident)
    return Judgement(
        outcome="PASSED" if diagnosis.status == "healthy" and inside else "FAILED",
        expected=f"diagnosis healthy and {incident.fault.observation} within its bound",
        observed=value,
        low=low,
        high=high,
        unit=incident.fault.observation,
        reason=f"diagnosis: {found}",
        specs=[incident.reference_spec, incident.control_spec],
    )


def symptom(incident: Incident) -> Judgement:
    """The declared observation moves beyond its bound, in the declared direction."""
    broken = unfit(incident.suspect, incident.suspect_spec)
    if broken:
        return broken
    value, healthy = incident.observed(incident.suspect), incident.observed(incident.control)
    up = incident.fault.direction == "up"
    moved = value is not None and not math.isnan(value) and not _within(incident, value)
    return Judgement(
        outcome="PASSED" if moved else "FAILED",
        expected=f"{incident.fault.observation} {'above' if up else 'below'} {incident.fault.bound:g}",
        observed=value,
        low=incident.fault.bound if up else None,
        high=None if up else incident.fault.bound,
        unit=incident.fault.observation,
        reason=f"healthy twin: {_shown(healthy)}; bound: {incident.fault.bound_origin}",
        specs=[incident.suspect_spec],
    )


def diagnosis(incident: Incident) -> Judgement:
    """From evidence alone the first finding is this cause, with the required evidence."""
    result = incident.diagnose(incident.suspect)
    first = result.findings[0] if result.findings else None
    named = {entry.name for entry in first.evidence} if first else set()
    lacking = [name for name in incident.key.required_evidence if name not in named]
    right = first is not None and first.cause in incident.key.accepts and first.category == incident.key.category
    return Judgement(
        outcome="PASSED" if right and not lacking else "FAILED",
        expected=f"{incident.key.category}: {' or '.join(incident.key.accepts)}",
        observed=f"{first.category}: {first.cause}" if first else result.status,
        reason=first.summary + _lacking(lacking) if first else "no finding",
        specs=[incident.reference_spec, incident.suspect_spec],
    )


def confirm(incident: Incident) -> Judgement:
    """Changing exactly one part moves the observation back."""
    change = incident.key.confirm
    run = incident.after(change)
    broken = unfit(run, incident.spec_after(change))
    if broken:
        return broken
    value = incident.observed(run)
    low, high = _band(incident)
    return Judgement(
        outcome="PASSED" if _within(incident, value) else "FAILED",
        expected=f"{incident.fault.observation} back within its bound after: {change.label}",
        observed=value,
        low=low,
        high=high,
        unit=incident.fault.observation,
        reason=change.why,
        specs=[incident.spec_after(change)],
    )


def remedy(incident: Incident) -> Judgement:
    """Each accepted fix restores the metric and the observation; no cheat is accepted."""
    for change in (*incident.key.remedies, *incident.key.cheats):
        broken = unfit(incident.after(change), incident.spec_after(change))
        if broken:
            return broken
    fixes = [(change, objection(incident, change)) for change in incident.key.remedies]
    cheats = [(change, objection(incident, change)) for change in incident.key.cheats]
    bad = [f"{change.label} was not accepted: {why}" for change, why in fixes if why]
    bad += [f"the cheat {change.label} was accepted" for change, why in cheats if not why]
    good = [f"{change.label} accepted" for change, _ in fixes]
    good += [f"cheat {change.label} refused: {why}" for change, why in cheats]
    worst = max((_loss(incident, incident.after(change)) for change in incident.key.remedies), default=math.nan)
    return Judgement(
        outcome="FAILED" if bad or not fixes else "PASSED",
        expected="validation metric within tolerance of the healthy twin",
        observed=worst,
        high=incident.key.tolerance,
        unit="relative loss of the metric",
        reason="; ".join(bad or good),
        specs=[incident.spec_after(change) for change in (*incident.key.cheats, *incident.key.remedies)],
    )


INVARIANTS: dict[str, Callable[[Incident], Judgement]] = {
    "control": control,
    "symptom": symptom,
    "diagnosis": diagnosis,
    "confirm": confirm,
    "remedy": remedy,
}


def objection(incident: Incident, change: Change) -> str:
    """Return why a change is no remedy, or an empty text when it is one.

    A remedy does the same work on the same model and data, brings the observation back within its
    bound, and restores the validation metric of the healthy twin.
    """
    run, healthy = incident.after(change), incident.control
    if run.state != "completed":
        return f"the run ended as {run.state}"
    work = [
        (name, run.start.get(name), healthy.start.get(name))
        for name in ("num_parameters", "num_train", "num_val", "data_hash")
    ]
    work += [(name, run.value(name), healthy.value(name)) for name in ("steps", "samples_seen")]
    for name, mine, theirs in work:
        if mine != theirs:
            return f"not the same work: {name} is {mine}, not {theirs}"
    undeclared = undeclared_differences(run, incident.suspect, change.set.keys())
    if undeclared and not change.part:
        return f"more than one change: {'; '.join(undeclared)}"
    value = incident.observed(run)
    if not _within(incident, value):
        return f"{incident.fault.observation} is {_shown(value)}, not within {incident.fault.bound:g}"
    loss = _loss(incident, run)
    if not loss <= incident.key.tolerance:
        return f"the metric is still {loss:.1%} worse than the healthy twin's"
    return ""


def _loss(incident: Incident, run: Run) -> float:
    """Return how much worse the metric is than the healthy twin's, relative to it; an unknown one is infinitely so."""
    loss = relative_loss(run.value("val_metric"), incident.control.value("val_metric"), run.start.get("goal"))
    return math.inf if loss is None else loss


def _within(incident: Incident, value: float | None) -> bool:
    """Tell whether the observation is on the healthy side of its bound; a missing number or NaN is not."""
    if value is None:
        return False
    low, high = _band(incident)
    return (low if low is not None else -math.inf) <= value <= (high if high is not None else math.inf)


def _band(incident: Incident) -> tuple[float | None, float | None]:
    bound = incident.fault.bound
    return (None, bound) if incident.fault.direction == "up" else (bound, None)


def _lacking(names: list[str]) -> str:
    return f" Evidence lacking: {', '.join(names)}." if names else ""


def unfit(run: Run, spec: RunSpec) -> Judgement | None:
    """Return why a run that was refused, broke or was late proves nothing, or None when it can be judged."""
    ends: dict[str, Outcome] = {"refused": "SKIPPED", "died": "ERROR", "error": "ERROR", "timeout": "TIMEOUT"}
    if run.state not in ends:
        return None
    return Judgement(
        outcome=ends[run.state],
        expected="the run executes",
        observed=run.state,
        reason=run.message,
        specs=[spec],
    )


def _shown(value: float | None) -> str:
    return "not observed" if value is None else f"{value:.4g}"
