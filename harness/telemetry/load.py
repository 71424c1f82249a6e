"""When does a GPU work? The samples under load, and how much of the time that is."""

from __future__ import annotations

from harness.telemetry.normal import IDLE, POWER, POWER_LIMIT, UTILISATION, Gpu, Sample, mean

LOADED = 50.0
"""Percent of utilisation from which a sample is one under load: in most of its period a kernel ran."""

AT_REST = 5.0
"""Percent up to which nothing runs: what a desktop and the measurement itself cause."""

BUSY = 85.0
"""Mean percent from which a GPU is kept busy: harness.trace calls 15 % of the time a loss that a run suffers from."""

DRAWS = 0.5
"""Share of the power limit that no idle card draws: the data sheets' idle powers are 5 to 20 % of the limit."""


def under_load(gpu: Gpu) -> list[Sample]:
    """Return the samples under load: by the utilisation, and where there is none, by the reasons or by the power."""
    awake = [sample for sample in gpu.samples if sample.reasons is None or IDLE not in sample.reasons]
    if gpu.has(UTILISATION):
        return [sample for sample in awake if (sample.get(UTILISATION) or 0.0) >= LOADED]
    return [sample for sample in awake if sample.reasons is not None or power_share(sample) >= DRAWS]


def power_share(sample: Sample) -> float:
    """Return the power as a share of its limit; 0 where it is not known."""
    power, limit = sample.get(POWER), sample.get(POWER_LIMIT)
    return power / limit if power is not None and limit else 0.0


def is_at_rest(gpu: Gpu) -> bool:
    """Whether nothing runs on it in any sample."""
    return all((sample.get(UTILISATION) or 0.0) <= AT_REST for sample in gpu.samples)


def busy_share(gpu: Gpu) -> float | None:
    """Return the mean utilisation in percent from its first busy sample to its last one; None where it has none."""
    told = [value for sample in gpu.samples if (value := sample.get(UTILISATION)) is not None]
    busy = [at for at, value in enumerate(told) if value > AT_REST]
    return mean(told[busy[0] : busy[-1] + 1]) if busy else None
