"""Is one setting better than another? A controlled comparison: one part varies, runs are interleaved and repeated.

Each repeat runs all arms one after the other with the same seed and data path, so that a drift of the
machine meets all of them; the next repeat has the next seed. One more run per arm, with all observers
and outside the timing, is diagnosed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median

from harness.config import RunSpec, changed
from harness.devices.leases import LeaseKind
from harness.diagnose.comparable import undeclared_differences
from harness.diagnose.diagnosis import diagnose
from harness.diagnose.finding import Diagnosis
from harness.diagnose.observations import Observations
from harness.errors import NotComparable, UsageError
from harness.experiment.store import RunStore
from harness.runs import Run, relative_loss

KINDS: tuple[LeaseKind, ...] = ("cpu", "cuda")
"""Always taken in this order, so that two comparisons never wait for each other."""


@dataclass(frozen=True)
class Arm:
    """One setting of the varied part, and its runs in the order of the repeats."""

    label: str
    specs: list[RunSpec]
    runs: list[Run]
    observed: Run
    """The run with all observers; it is not timed."""
    diagnosis: Diagnosis

    @property
    def state(self) -> str:
        """``completed`` when every run completed, otherwise the first other state."""
        return next((run.state for run in self.runs if run.state != "completed"), "completed")


@dataclass(frozen=True)
class Spread:
    """Median, lowest and highest of a number over the repeats; NaN when a repeat has none."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Contrast:
    """One arm against the baseline, repeat by repeat."""

    speed: Spread
    """Throughput / baseline's."""
    quality: Spread
    """Relative loss of the validation metric: positive is worse."""
    memory: Spread
    """Peak memory / baseline's."""


def vary(text: str) -> tuple[str, list[str]]:
    """Read ``part=value,value,...``; the first value is the baseline."""
    part, equals, values = text.partition("=")
    part = part.strip().replace("-", "_")
    found = [value.strip() for value in values.split(",")]
    if not equals or len(found) < 2 or "" in found:
        raise UsageError(f"--vary {text!r}: expected part=value,value,... with at least two values")
    if len(set(found)) < len(found):
        raise UsageError(f"--vary {text!r}: each value may be given once")
    if part not in RunSpec.__struct_fields__:
        raise UsageError(f"--vary {text!r}: unknown part {part!r}; known are: {', '.join(RunSpec.__struct_fields__)}")
    return part, found


def compare(base: RunSpec, part: str, values: list[str], repeats: int, store: RunStore) -> list[Arm]:
    """Execute a comparison; the first arm is the baseline."""
    arms = [changed(base, {part: value}, f"--vary {part}={value}") for value in values]
    specs = [[changed(spec, {"seed": spec.seed + repeat}) for repeat in range(repeats)] for spec in arms]
    runs: list[list[Run]] = [[] for _ in arms]
    with _held(store, arms):
        full = [store.get(changed(spec, {"observe": "full"})) for spec in arms]
        _refuse_unusable(full)
        for repeat in range(repeats):
            for index in range(len(arms)):
                runs[index].append(store.get(specs[index][repeat]))
                _refuse_uncontrolled(runs[index][-1], runs[0][-1], part)
    return [
        Arm(value, specs[i], runs[i], full[i], diagnose(Observations(full[i], full[0] if i else None, [part])))
        for i, value in enumerate(values)
    ]


def compare_recorded(one: Run, other: Run, part: str) -> list[Arm]:
    """Compare two runs that exist; NotComparable lists every difference that was not declared."""
    undeclared = undeclared_differences(one, other, [part]) + _observers(one, other)
    if undeclared:
        raise NotComparable(undeclared)
    found = [_label(one, part), _label(other, part)]
    return [
        Arm(found[0], [], [one], one, diagnose(Observations(one))),
        Arm(found[1], [], [other], other, diagnose(Observations(other, one, [part]))),
    ]


def contrast(arm: Arm, baseline: Arm) -> Contrast:
    """Compare an arm with the baseline, each repeat with its own partner."""
    pairs = list(zip(arm.runs, baseline.runs, strict=True))
    return Contrast(
        speed=_spread(_ratio(mine, theirs, "throughput") for mine, theirs in pairs),
        quality=_spread(_loss(mine, theirs) for mine, theirs in pairs),
        memory=_spread(_ratio(mine, theirs, "peak_memory_bytes") for mine, theirs in pairs),
    )


def _held(store: RunStore, specs: list[RunSpec]) -> ExitStack:
    """Hold every device that the arms need until all are measured."""
    with ExitStack() as held:
        for kind in KINDS:
            counts = [spec.devices for spec in specs if spec.device == kind]
            if counts:
                held.enter_context(store.alone(kind, max(counts)))
        return held.pop_all()


def _refuse_unusable(runs: list[Run]) -> None:
    for run in runs:
        if run.state == "refused":
            raise UsageError(run.message.partition("refused: ")[2] or run.message)
    if all(run.state in {"died", "error"} for run in runs):
        raise UsageError(f"no run of the comparison worked: {runs[0].message}")


def _refuse_uncontrolled(run: Run, baseline: Run, part: str) -> None:
    """Refuse a pair that differs in more than the part: data that are made anew in each run, for one."""
    if run.start and baseline.start and (undeclared := undeclared_differences(run, baseline, [part])):
        raise NotComparable(undeclared)


def _observers(one: Run, other: Run) -> list[str]:
    """Observers change no number, but they cost time: with other ones the speeds cannot be compared."""
    specs = [run.start.get("spec") for run in (one, other)]
    levels = [str(spec.get("observe")) if isinstance(spec, dict) else "unknown" for spec in specs]
    return [] if levels[0] == levels[1] else [f"observe: {levels[0]} and {levels[1]} (it changes the speed)"]


def _label(run: Run, part: str) -> str:
    spec = run.start.get("spec")
    value = spec.get(part) if isinstance(spec, dict) else run.start.get(part)
    return f"{value} ({run.folder.name})"


def _ratio(mine: Run, theirs: Run, name: str) -> float:
    a, b = mine.value(name), theirs.value(name)
    return a / b if a is not None and b else math.nan


def _loss(mine: Run, theirs: Run) -> float:
    """Return how much worse the metric is, relative to the baseline's; inf when only this one is not a number."""
    baseline = theirs.value("val_metric")
    if baseline is not None and math.isinf(baseline):
        return math.nan
    loss = relative_loss(mine.value("val_metric"), baseline, theirs.start.get("goal"))
    return math.nan if loss is None else loss


def _spread(values: Iterator[float]) -> Spread:
    found = list(values)
    if not found or any(map(math.isnan, found)):
        return Spread(math.nan, math.nan, math.nan)
    return Spread(median(found), min(found), max(found))
