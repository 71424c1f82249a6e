"""What holds the clocks of a GPU down? One function for each cause, over the samples of one GPU."""

from __future__ import annotations

from harness.diagnose.finding import Evidence
from harness.telemetry.load import power_share, under_load
from harness.telemetry.normal import (
    APPLICATION_CLOCKS,
    DEFAULT_LIMIT,
    HW_SLOWDOWN,
    HW_THERMAL,
    MAX_SM_CLOCK,
    POWER_BRAKE,
    POWER_CAP,
    POWER_LIMIT,
    POWER_VIOLATION,
    SM_CLOCK,
    SW_THERMAL,
    TEMPERATURE,
    UTILISATION,
    Gpu,
    Sample,
    mean,
)
from harness.telemetry.seen import MOSTLY, Seen, context_of, evidence_of, number_of, with_reasons

OFTEN = 0.05
"""Share of the samples under load from which a slowdown is worth work: harness.trace's ACTION."""

HOT = 83.0
"""Celsius from which an undeclared hardware slowdown is taken for heat: the target temperature that nvidia-smi -q shows
for GeForce cards; data-center cards slow down at that or above."""

CAPPED = 0.7
"""Share of the highest clock below which a power cap costs something: the base clock, which cards keep at their limit,
is 0.75 (A100 PCIe) to 0.84 (V100) of the highest one in NVIDIA's data sheets. Matrix products on
H100 go below that at the limit that the card came with: there STUCK is the bound."""

LOWERED = 0.95
"""Share of the default power limit below which somebody lowered it."""

AT_LIMIT = 0.97
"""Share of the power limit from which a card is held by it: NVML states 5 % for the accuracy of power."""

STUCK = 0.5
"""Share of the highest clock below which no load puts a clock; hw_slowdown, nvml.h says, halves it or more."""

FULL = 90.0
"""Percent of utilisation at which a card has no reason to slow down by itself."""

THERMAL, BRAKE = frozenset({SW_THERMAL, HW_THERMAL}), frozenset({POWER_BRAKE})


def _slowed(gpu: Gpu, file: str, held: list[Sample], name: str) -> tuple[float, list[Evidence]] | None:
    """Return the share of the samples in which something holds the clocks, and numbers; None where that is rare."""
    loaded = under_load(gpu)
    share = len(held) / len(loaded) if loaded else 0.0
    if share < OFTEN:
        return None
    worst = min(held, key=lambda sample: sample.get(SM_CLOCK) or float("inf"))
    source = f"{file}:{worst.line}, {gpu.label}"
    return share, [
        evidence_of(name, share, "of samples under load", f">= {OFTEN}", source),
        *context_of(worst, file, gpu),
    ]


def thermal(gpu: Gpu, file: str) -> Seen | None:
    """Too hot: the driver (sw) or the card (hw) lowers the clocks to cool down."""
    held = [sample for sample in under_load(gpu) if _is_hot(sample)]
    if (slowed := _slowed(gpu, file, held, "thermal_slowdown_share")) is None:
        return None
    hottest = max((sample.get(TEMPERATURE) or 0.0 for sample in held), default=0.0)
    at = f", at up to {hottest:.0f} C" if hottest else ""
    told = f"heat holds the clocks down in {slowed[0]:.0%} of {len(under_load(gpu))} sample(s) under load{at}"
    action = (
        "Cool it: dust, fans, the flow of air through the rack, the temperature of the room; until then lower the "
        "power limit (nvidia-smi -pl), which costs less than a slowdown by heat."
    )
    return Seen(gpu.label, held[0].line, 0.9, told, slowed[1], action)


def _is_hot(sample: Sample) -> bool:
    reasons = sample.reasons or frozenset()
    by_card = HW_SLOWDOWN in reasons and not reasons & BRAKE
    return bool(reasons & THERMAL) or (by_card and (sample.get(TEMPERATURE) or 0.0) >= HOT)


def brake(gpu: Gpu, file: str) -> Seen | None:
    """The server's power brake, or a slowdown by the card that is not of heat."""
    held = [sample for sample in with_reasons(under_load(gpu), BRAKE | {HW_SLOWDOWN}) if not _is_hot(sample)]
    if (slowed := _slowed(gpu, file, held, "power_brake_share")) is None:
        return None
    braked = bool(with_reasons(held, BRAKE))
    clock = mean(value for sample in held if (value := sample.get(SM_CLOCK)) is not None)
    at = f", at {clock:.0f} MHz" if clock else ""
    what = "the server's power brake signal (HW Power Brake Slowdown)" if braked else "the card itself (HW Slowdown)"
    told = f"{what} holds the clocks down in {slowed[0]:.0%} of {len(under_load(gpu))} sample(s){at}, and not for heat"
    action = (
        "A matter of the server, not of the training: look for a failed or overloaded power supply, a loose cable and "
        "a power cap in the BMC (ipmitool sel list), then reset the card."
    )
    return Seen(gpu.label, held[0].line, 0.9 if braked else 0.6, told, slowed[1], action)


def capped(gpu: Gpu, file: str) -> Seen | None:
    """The power limit holds the clocks clearly below what the card could do, or somebody lowered it."""
    loaded = under_load(gpu)
    held = [sample for sample in loaded if _is_capped(sample)]
    if not held or len(held) < MOSTLY * len(loaded):
        return None
    worst = min(held, key=lambda sample: sample.get(SM_CLOCK) or float("inf"))
    clock, highest = worst.get(SM_CLOCK), worst.get(MAX_SM_CLOCK)
    at = f" at {clock:.0f} of {highest:.0f} MHz" if clock and highest else ""
    told = f"the power limit holds the clocks down{at} in {len(held) / len(loaded):.0%} of the samples under load"
    source = f"{file}:{worst.line}, {gpu.label}"
    evidence = [
        evidence_of("power_cap_share", len(held) / len(loaded), "of samples under load", f">= {MOSTLY}", source)
    ]
    if clock and highest:
        evidence.append(
            evidence_of(
                "clock_share",
                clock / highest,
                "of the highest clock",
                f"< {1.0 if _is_lowered(worst) else _bound(worst)}",
                source,
            )
        )
    evidence += [*context_of(worst, file, gpu), *number_of(worst, file, gpu, DEFAULT_LIMIT, "W")]
    if _is_lowered(worst):
        action = f"The limit was lowered: nvidia-smi -pl {worst.get(DEFAULT_LIMIT):.0f} restores it."
        return Seen(gpu.label, held[0].line, 0.9, told, evidence, action)
    action = (
        "Compare power.limit with power.default_limit: a lowered limit is raised with nvidia-smi -pl. At its default "
        "this is as fast as the card gets under this load; fewer wasted operations, not settings, then make it faster."
    )
    return Seen(gpu.label, held[0].line, 0.6, told, evidence, action)


def _is_lowered(sample: Sample) -> bool:
    limit, default = sample.get(POWER_LIMIT), sample.get(DEFAULT_LIMIT)
    return limit is not None and default is not None and limit < LOWERED * default


def _is_capped(sample: Sample) -> bool:
    by_limit = sample.reasons is None and power_share(sample) >= AT_LIMIT
    said = sample.reasons is not None and POWER_CAP in sample.reasons
    violated = (sample.get(POWER_VIOLATION) or 0.0) >= 100 * MOSTLY
    return (said or by_limit or violated) and (_is_lowered(sample) or _is_below(sample, _bound(sample)))


def _bound(sample: Sample) -> float:
    """Return the share of the highest clock below which a cap costs something: less at the limit the card came with."""
    return CAPPED if sample.get(DEFAULT_LIMIT) is None else STUCK


def _is_below(sample: Sample, share: float) -> bool:
    clock, highest = sample.get(SM_CLOCK), sample.get(MAX_SM_CLOCK)
    return clock is not None and bool(highest) and clock < share * (highest or 0.0)


def stuck(gpu: Gpu, file: str) -> Seen | None:
    """A clock below half of the highest under full load, which no reason explains."""
    full = [sample for sample in under_load(gpu) if (sample.get(UTILISATION) or 0.0) >= FULL]
    low = [sample for sample in full if _is_below(sample, STUCK) and not _is_held(sample)]
    if not low or len(low) < MOSTLY * len(full):
        return None
    worst, known = low[0], low[0].reasons is not None
    clock, highest = worst.get(SM_CLOCK) or 0.0, worst.get(MAX_SM_CLOCK) or 1.0
    asked = known and APPLICATION_CLOCKS in (worst.reasons or frozenset())
    why = "clocks were set by hand" if asked else "no reason is given" if known else "the file has no reasons"
    told = f"it works at {clock:.0f} of {highest:.0f} MHz at {worst.get(UTILISATION):.0f} % utilisation, and {why}"
    evidence = [
        evidence_of(
            "clock_share", clock / highest, "of the highest clock", f"< {STUCK}", f"{file}:{worst.line}, {gpu.label}"
        ),
        *number_of(worst, file, gpu, UTILISATION, "%", f">= {FULL:.0f}"),
        *context_of(worst, file, gpu),
    ]
    action = "Reset what was set by hand (nvidia-smi -rgc, nvidia-smi -rac); if the clock stays low, reset the card."
    return Seen(gpu.label, worst.line, 0.8 if known else 0.6, told, evidence, action)


def _is_held(sample: Sample) -> bool:
    """Whether a reason other than clocks that were asked for explains a low clock."""
    return bool((sample.reasons or frozenset()) & (THERMAL | BRAKE | {HW_SLOWDOWN, POWER_CAP}))
