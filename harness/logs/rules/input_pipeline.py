"""The device waits for data: a large share of each step goes by before its batch is there."""

from __future__ import annotations

from harness.diagnose.base import Match
from harness.diagnose.finding import NO_BOUND
from harness.logs.base import LogRule, Verdict, evidence_of
from harness.logs.normal import LoggedRun, Point, where

LEAST = 4
"""Steps that are printed with both times."""

SHARE = 0.3
"""Waiting above 10 % is worth a look; loaders that keep up stay below that. A print in every n steps may meet the one
batch in a prefetch round that has to wait, so the bound is three times as high."""

SURE = 0.5
"""Half of the step: from here on the finding is told more surely; whether there is one does not depend on it."""

OUTLIER_FROM = 8
"""Prints from which the longest wait is left out."""

LEAST_AN_EPOCH = 3
"""Prints an epoch from which the first of each is left out: workers start anew there, once an epoch and not once in
every few steps, as it would seem from the prints."""


def judge(run: LoggedRun) -> Verdict:
    """Compare the sum of the waits with the sum of the step times; the first print of a run is its warm-up."""
    pairs = _paired(run, "data_time_s", "step_time_s")
    if len(pairs) < LEAST:
        return None
    pairs = _without_starts(pairs)
    now = _share(pairs)
    means = _last_of_epochs(_paired(run, "data_time_s_mean", "step_time_s_mean"))
    late = _share(means) if means else 0.0
    now = late if means and len({point.epoch for point, _ in means}) > 1 else now
    share, what = (late, "means over the epoch") if late > now else (now, "sums over the log")
    if share < SHARE:
        return None
    data, step = max(pairs, key=lambda pair: pair[0].value)
    return Match(
        confidence=0.9 if share >= SURE else 0.65,
        summary=(
            f"Waiting for data takes {share:.0%} of the step time ({what}; {len(pairs)} prints; at most "
            f"{data.value:.3g} s of "
            f"{step.value:.3g} s, {where(data)}): the device is idle in it."
        ),
        evidence=[
            evidence_of(run, "data_wait_share", share, f">= {SHARE}", data.line, "share"),
            evidence_of(run, "data_time", data.value, NO_BOUND, data.line, "s"),
            evidence_of(run, "step_time", step.value, NO_BOUND, step.line, "s"),
        ],
        confirm="Train 50 steps on one batch that is kept in memory: the step time must fall by this share.",
        action=(
            "More loader workers (persistent_workers, pin_memory), cheaper decoding or cached data, faster storage; "
            "check that the workers have cores of their own."
        ),
    )


def _paired(run: LoggedRun, data: str, step: str) -> list[tuple[Point, Point]]:
    """Return the waits and the step times of the same rows; the wait and the computing make a step as well."""
    waits = run.get(data).finite
    if run.get(step).finite or step != "step_time_s":
        steps = {point.order: point for point in run.get(step).finite}
    else:
        computed = {point.order: point for point in run.get("compute_time_s").finite}
        both = [(p, computed[p.order]) for p in waits if p.order in computed]
        steps = {p.order: c._replace(value=p.value + c.value) for p, c in both}
    pairs = [(p, steps[p.order]) for p in waits if p.order in steps and steps[p.order].value > 0]
    if pairs:
        return pairs
    by_step = {p[2:4]: p for p in steps.values() if p.step is not None}  # each has a line of its own
    return [(p, by_step[p[2:4]]) for p in waits if p[2:4] in by_step]


def _without_starts(pairs: list[tuple[Point, Point]]) -> list[tuple[Point, Point]]:
    """Leave out the first print of the run, and of each epoch that has several."""
    epochs = [point.epoch for point, _ in pairs]
    if len(pairs) < LEAST_AN_EPOCH * len(set(epochs)) or any(epoch is not None and epoch % 1 for epoch in epochs):
        return pairs[1:]
    return [pair for n, pair in enumerate(pairs) if n and epochs[n] == epochs[n - 1]]


def _last_of_epochs(means: list[tuple[Point, Point]]) -> list[tuple[Point, Point]]:
    """Return the means over whole epochs; those of the first prints of an epoch are of a few steps."""
    if len(means) < LEAST:
        return []
    return list({point.epoch: (point, step) for point, step in means}.values())


def _share(pairs: list[tuple[Point, Point]]) -> float:
    """Return the share of the waiting; where the step time leaves the wait out, of both together."""
    if len(pairs) >= OUTLIER_FROM:  # one stall, of a checkpoint or a network drive, is no slow loader
        pairs = sorted(pairs, key=lambda pair: pair[0].value)[:-1]
    waited, total = sum(d.value for d, _ in pairs), sum(s.value for _, s in pairs)
    outside = sum(d.value > s.value * 1.05 for d, s in pairs) > len(pairs) / 5
    total = total + waited if outside else total
    return waited / total if total > 0 else 0.0


def can_judge(run: LoggedRun) -> bool:
    """Both times in the same rows."""
    return len(_paired(run, "data_time_s", "step_time_s")) >= LEAST


RULE = LogRule(
    category="input_pipeline",
    can_judge=can_judge,
    needs=f"{LEAST} steps with the time that they took and waited for data",
    to_log="data_time and step_time of each step",
    judge=judge,
)
