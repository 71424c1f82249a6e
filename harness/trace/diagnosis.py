"""Where does a trace lose its time, and what is to be done first?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from msgspec import field

from harness.diagnose.diagnosis import UNKNOWN
from harness.diagnose.finding import NO_BOUND, Category, Diagnosis, Evidence, Finding, Status
from harness.trace.breakdown import Breakdown, break_down, busiest
from harness.trace.kernels import is_communication
from harness.trace.normal import Trace
from harness.trace.refusal import reasons_against, without_work

PRIMARY = 0.15
"""Share of the window from which a loss can be what a run suffers from."""

SHORT_US = 10.0
"""Median length of kernels, in microseconds, below which to launch them is taken to be what costs. Not measured here:
what a launch is commonly said to take the host."""

MANY = 50
"""Collectives in a step from which a model is not bucketed: DDP makes one bucket of each 25 MB."""

MATRIX = 0.3
"""Share of kernel time in matrix products from which their units matter."""


class TraceDiagnosis(Diagnosis, frozen=True, kw_only=True):
    """A diagnosis with where the time went; the shares add up to 1."""

    shares: dict[str, float | dict[str, float]] = field(default_factory=dict)
    communication_overlap: float | None = None
    """The part of the communication that compute hides, 0 to 1."""
    tensor_core: dict[str, float] = field(default_factory=dict)
    """Of the time of matrix products: half, tf32, simt, unknown."""
    top_kernels: list[dict[str, float | str]] = field(default_factory=list)
    window: dict[str, float] = field(default_factory=dict)
    ranks: dict[str, dict[str, float | dict[str, float]]] = field(default_factory=dict)
    """Where traces of several ranks were given: the shares of each."""
    absent: list[int] = field(default_factory=list)
    """Ranks of the job of which no trace was given."""


def diagnose_trace(trace: Trace) -> TraceDiagnosis:
    """Return the losses of one trace, largest first; or why it cannot be judged."""
    refused = without_work(trace)
    if refused:
        return TraceDiagnosis(status="not_enough_evidence", missing=refused)
    trace = busiest(trace)
    breakdown = break_down(trace)
    against = reasons_against(trace, breakdown)
    findings = [] if against else _findings(trace, breakdown)
    status: Status = "not_enough_evidence" if against else "diagnosed" if findings else "healthy"
    return TraceDiagnosis(
        status=status,
        findings=findings,
        missing=against,
        checked=[] if against else ["input_pipeline", "communication", "host_overhead", "memory", "kernel_efficiency"],
        shares={
            "compute": breakdown.compute,
            "exposed_communication": breakdown.exposed_communication,
            "exposed_copy": breakdown.exposed_copy,
            "idle": breakdown.idle,
        },
        communication_overlap=breakdown.communication_overlap,
        tensor_core=breakdown.units,
        top_kernels=_told(breakdown),
        window={
            "start_us": breakdown.window.start,
            "length_us": breakdown.window.length,
            "steps": breakdown.window.num_steps,
        },
    )


def _told(breakdown: Breakdown) -> list[dict[str, float | str]]:
    length = breakdown.window.length
    return [
        {"name": top.name, "count": top.count, "total_us": top.total_us, "share": top.total_us / length}
        for top in breakdown.top
    ]


def _findings(trace: Trace, breakdown: Breakdown) -> list[Finding]:
    losses = {
        "input": breakdown.idle["input"],
        "communication": breakdown.exposed_communication,
        "host": breakdown.idle["host"] + breakdown.idle["sync"],
        "allocator": breakdown.idle["allocator"],
        "copy": breakdown.exposed_copy,
    }
    ranked = sorted(losses.items(), key=lambda loss: -loss[1])
    primary = [(name, share) for name, share in ranked if share >= PRIMARY]
    found = [_loss(name, share, _sureness(share, ranked), trace, breakdown) for name, share in primary]
    return found or _kernel_efficiency(trace, breakdown)


def _sureness(share: float, ranked: list[tuple[str, float]]) -> float:
    """Return how surely a loss is the first one to work on: less where another one is nearly as large."""
    largest, second = ranked[0][1], ranked[1][1]
    if share < largest:
        return 0.5 if share >= 0.5 * largest else 0.4
    return 0.9 if largest >= 2 * second else 0.7


CONFIRM = {
    "input": "Repeat one batch that stays on the device: the step must get faster by about this share.",
    "communication": "Run the same step on one device, or under no_sync: what is left is this share.",
    "host": "Double the batch: a device that waits for the host takes hardly longer for it.",
    "allocator": "Run with PYTORCH_NO_CUDA_MEMORY_CACHING unset and watch num_alloc_retries in memory_stats().",
    "copy": "Keep one batch on the device: the step must get faster by this share.",
}

MEANING: dict[str, tuple[Category, str]] = {
    "input": ("input_pipeline", "the device has nothing to do while the host waits for its next batch"),
    "communication": ("communication", "collectives run while no compute does"),
    "host": ("host_overhead", "the device has nothing to do because the host has not launched the next kernel"),
    "allocator": ("memory", "the device idles while the host allocates or frees its memory"),
    "copy": ("input_pipeline", "copies between host and device run while nothing else does"),
}


def _loss(name: str, share: float, confidence: float, trace: Trace, breakdown: Breakdown) -> Finding:
    category, meaning = MEANING[name]
    found = next(known for known in CAUSES if known.loss == name and known.applies(trace, breakdown))
    return Finding(
        category=category,
        cause=found.cause,
        confidence=confidence,
        summary=f"In {share:.0%} of {breakdown.window.length / 1000:.4g} ms {meaning}.",
        evidence=[_evidence(f"{name}_share", share, f">= {PRIMARY}", trace), *_context(name, trace, breakdown)],
        confirm=CONFIRM[name],
        action=f"{found.action} At most {1 / (1 - share):.2f} times faster, when all of it goes.",
    )


@dataclass(frozen=True)
class Cause:
    """A cause of one loss, as far as a trace tells it, and what to do."""

    loss: str
    cause: str
    action: str
    applies: Callable[[Trace, Breakdown], bool] = lambda _trace, _breakdown: True


CAUSES = (
    Cause(
        "input",
        "too_few_workers",
        "Give the DataLoader workers (num_workers, pin_memory, persistent_workers).",
        lambda trace, _: trace.loads_alone,
    ),
    Cause("input", UNKNOWN, "Time a pass over the DataLoader alone, then with more workers, then with cached data."),
    Cause(
        "communication",
        "small_buckets",
        "Send gradients in buckets (DistributedDataParallel, a larger bucket_cap_mb).",
        lambda trace, breakdown: _collectives(trace, breakdown) > MANY,
    ),
    Cause(
        "communication",
        UNKNOWN,
        "Compare the ranks: one that arrives late makes the others wait; then overlap, or enlarge buckets.",
    ),
    Cause(
        "host",
        "per_step_sync",
        "Remove .item(), .cpu() and synchronize() from the step; log every hundredth one.",
        lambda _, breakdown: breakdown.idle["sync"] > breakdown.idle["host"],
    ),
    Cause(
        "host",
        "small_kernels",
        "Launch less: torch.compile, CUDA graphs, fused optimizers, a larger batch.",
        lambda _, breakdown: breakdown.kernel_us < SHORT_US,
    ),
    Cause("host", UNKNOWN, "Profile the host (py-spy, with_stack=True): what Python does between the launches."),
    Cause("allocator", UNKNOWN, "Keep sizes constant, drop empty_cache(), and set expandable_segments:True."),
    Cause("copy", UNKNOWN, "Pin the memory of batches and copy with non_blocking=True, one batch ahead."),
)
"""The first one that applies to a loss is told."""


def _context(name: str, trace: Trace, breakdown: Breakdown) -> list[Evidence]:
    if name == "communication" and breakdown.communication_overlap is not None:
        return [
            _evidence("communication_overlap", breakdown.communication_overlap, NO_BOUND, trace),
            _evidence("collectives_per_step", _collectives(trace, breakdown), NO_BOUND, trace, "calls"),
        ]
    if name == "host":
        return [_evidence("kernel_median", breakdown.kernel_us, NO_BOUND, trace, "us")]
    return []


def _collectives(trace: Trace, breakdown: Breakdown) -> float:
    """Return collectives in a step; in the window, where there are no steps."""
    work, window = trace.work, breakdown.window
    talks = np.array([is_communication(name) for name in trace.names], dtype=bool)[work.name]
    inside = talks & (work.start >= window.start) & (work.start < window.end)
    return float(inside.sum()) / max(window.num_steps, 1)


def _kernel_efficiency(trace: Trace, breakdown: Breakdown) -> list[Finding]:
    """Return what is to be said of a device that is busy: matrix products on ordinary lanes leave Tensor Cores idle."""
    simt = breakdown.units["simt"]
    share = min(breakdown.matrix * breakdown.compute * simt, 0.99)
    if breakdown.matrix < MATRIX or simt < 0.5:
        return []
    return [
        Finding(
            category="kernel_efficiency",
            cause="fp32_matmul",
            confidence=0.8 if simt >= 0.9 else 0.6,
            summary=(
                f"The device is busy, {breakdown.matrix:.0%} of its kernel time are matrix products, and {simt:.0%} of "
                "these run in fp32 on ordinary lanes: Tensor Cores are idle."
            ),
            evidence=[
                _evidence("simt_share", simt, ">= 0.5", trace),
                _evidence("matrix_share", breakdown.matrix, f">= {MATRIX}", trace),
            ],
            confirm="Run ten steps under autocast, bf16 or before Ampere fp16: products must get several times faster.",
            action=(
                "Use autocast, or on Ampere and newer torch.set_float32_matmul_precision('high'). At most "
                f"{1 / (1 - share):.2f} times faster, if these products took no time."
            ),
        )
    ]


def _evidence(name: str, value: float, threshold: str, trace: Trace, unit: str = "share") -> Evidence:
    return Evidence(name=name, value=value, unit=unit, threshold=threshold, source=trace.file)
