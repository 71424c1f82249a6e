"""How is each incident told in the report? Its runs as they were recorded; nothing is executed here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from harness.config import RunSpec, command
from harness.exam.incident import Incident
from harness.experiment.store import RunStore
from harness.plugin.options import Options
from harness.plugin.places import Place, places
from harness.report import model
from harness.runs import Run


def incidents(checks: Iterable[model.Check], options: Options, store: RunStore) -> list[model.Incident]:
    """Return the incidents whose suspect was executed."""
    return [_told(place, store) for place in _shown(checks, options) if _executed(place.incident(store), store)]


def confusion(checks: Iterable[model.Check], options: Options, store: RunStore) -> dict[str, dict[str, int]]:
    """Count truth against the first cause diagnosed, over all suspects and healthy twins."""
    table: dict[str, dict[str, int]] = {}
    for place in _shown(checks, options):
        incident = place.incident(store)
        if _executed(incident, store):
            _count(table, place.cause, incident, incident.suspect)
            _count(table, "healthy", incident, incident.control)
    return table


def _count(table: dict[str, dict[str, int]], truth: str, incident: Incident, run: Run) -> None:
    result = incident.diagnose(run)
    named = result.findings[0].cause if result.findings else result.status
    row = table.setdefault(truth, {})
    row[named] = row.get(named, 0) + 1


def _shown(checks: Iterable[model.Check], options: Options) -> Iterator[Place]:
    ran = {
        (check.scenario, check.cause, check.workload, check.device) for check in checks if check.outcome != "SKIPPED"
    }
    for scenario in sorted({scenario for scenario, *_ in ran}):
        for place in places(scenario, options):
            if (place.scenario, place.cause, place.workload, place.device) in ran:
                yield place


def _executed(incident: Incident, store: RunStore) -> bool:
    needed = (incident.reference_spec, incident.control_spec, incident.suspect_spec)
    return all(store.peek(spec) is not None for spec in needed)


def _told(place: Place, store: RunStore) -> model.Incident:
    incident = place.incident(store)
    key = place.key
    return model.Incident(
        scenario=key.scenario,
        cause=key.cause,
        category=key.category,
        workload=place.workload,
        device=place.device,
        title=key.title,
        story=key.story,
        runs=list(_runs(incident, store)),
        diagnosis=incident.diagnose(incident.suspect),
    )


def _runs(incident: Incident, store: RunStore) -> Iterator[model.RunView]:
    key = incident.key
    yield from _view("reference", "fp32, same seed", incident.reference_spec, store)
    yield from _view("control", "healthy twin", incident.control_spec, store)
    yield from _view("suspect", "as reported", incident.suspect_spec, store)
    for role, changes in (("confirm", [key.confirm]), ("remedy", key.remedies), ("cheat", key.cheats)):
        for change in changes:
            yield from _view(role, change.label, incident.spec_after(change), store, incident.repeat_of(change))


def _view(role: str, label: str, spec: RunSpec, store: RunStore, repeat: int = 0) -> Iterator[model.RunView]:
    run = store.peek(spec, repeat)
    if run is None:
        return
    peak = run.value("peak_memory_bytes")
    yield model.RunView(
        role=role,
        label=label,
        command=command(spec, store.options),
        state=run.state,
        precision=spec.precision,
        device=spec.device,
        val_metric=run.value("val_metric"),
        metric_name=str(run.start.get("metric", "")),
        metric_goal="min" if run.start.get("goal") == "min" else "max",
        step_time_s=run.value("step_time_s"),
        throughput=run.value("throughput"),
        is_timed=store.has_lease(spec),
        unit=str(run.summary.get("unit", "samples/s")),
        peak_memory_bytes=int(peak) if peak is not None else None,
        loss=_series(run, "step", "loss"),
        val=_series(run, "validation", "val_metric"),
        loss_scale=_series(run, "sample", "loss_scale"),
        grad_norm=_series(run, "sample", "grad_norm"),
        skipped_steps=[step for step, _ in run.series("sample", "skipped")],
    )


def _series(run: Run, event: str, name: str) -> model.Series:
    return [(step, value if math.isfinite(value) else None) for step, value in run.series(event, name)]
