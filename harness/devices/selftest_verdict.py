"""Is what the ranks of the self-test measured correct? Pure judgement; torch is not needed to read it.

The bound of a matrix product. A and B are standard normal, K = 256, and the reference is computed in float64 from the
values before rounding. Rounding to a format with spacing ``eps`` moves each number by at most eps/2 of itself, with
random sign, so that each of the three roundings (A, B, the output) adds at most eps/2 to the relative error in the
Frobenius norm, in quadrature: at most 0.87 eps together. Where A and B are cut and not rounded (TF32 in the tensor
cores) an input moves by up to eps, in one direction: at most 2 eps. Partial sums in the output format (split-K) are m
more roundings: up to m = 16 of them stay within sqrt(16)/2 = 2 eps. Hence 2 eps for tf32, bf16 and fp16, whose sums are
kept in fp32. In fp32 the sum itself rounds: K steps of at most eps/2, in quadrature at most sqrt(K)/2 = 8 eps, and 9
with the roundings before. Measured on an x86 CPU: 0.37 eps (bf16, fp16), 1.76 eps (fp32), 0.79 eps (TF32 by cutting). A
format that is silently replaced by the next coarser one is at least 2.9 eps off.

One wrong element hardly moves the norm of 65,536, so the largest error is bounded too. An element's error is a sum of
many independent roundings, hence close to normal, and the largest of 65,536 such is within 4.5 standard deviations.
With the bound above as the standard deviation and a reserve: 6 times that bound, relative to the root mean square of C.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from harness.observe.outcome import GateCheck

EPS = {"fp32": 2.0**-23, "tf32": 2.0**-10, "bf16": 2.0**-7, "fp16": 2.0**-10}
"""precision -> the spacing of its numbers between 1 and 2."""

BOUND_EPS = {"fp32": 9.0, "tf32": 2.0, "bf16": 2.0, "fp16": 2.0}
"""precision -> largest relative error in the Frobenius norm, in eps; derived above."""

ELEMENT_FACTOR = 6.0
"""Bound of the largest error of an element, in units of the bound of the norm; derived above."""

_PRODUCT_REMEDY = (
    "measure nothing on this device: unset NVIDIA_TF32_OVERRIDE and TORCH_ALLOW_TF32_CUBLAS_OVERRIDE; if it stays "
    "wrong, run `dcgmi diag -r 3` on a GPU or a memory test on a CPU; leave a sick GPU out with CUDA_VISIBLE_DEVICES"
)
_DEVICE_REMEDY = "install the torch build that fits the driver's CUDA; if it stays, read the NVRM/Xid lines of `dmesg`"
_COLLECTIVE_REMEDY = (
    "run with NCCL_DEBUG=INFO to see the failing link; for gloo set GLOO_SOCKET_IFNAME=lo, "
    "and check that the host name resolves and /dev/shm is large enough"
)


@dataclass(frozen=True)
class Product:
    """One matrix product beside its reference."""

    error_eps: float
    """Relative error in the Frobenius norm, in eps of the format."""
    largest_eps: float
    """Largest error of an element relative to the root mean square of the reference, in eps."""
    num_not_finite: int

    def within(self, bound_eps: float) -> bool:
        """Say whether both errors are in their bounds; tested positively, so that NaN is not."""
        return 0 <= self.error_eps <= bound_eps and 0 <= self.largest_eps <= ELEMENT_FACTOR * bound_eps


@dataclass(frozen=True, kw_only=True)
class RankReport:
    """What one rank found; a failure is an exception in one line, or empty."""

    software: str = ""
    products: dict[str, Product] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    """precision -> why this device does not have it."""
    device_failure: str = ""
    num_sums: int = 0
    """Elements of the all_reduce; 0 when there was none."""
    num_sums_wrong: int = 0
    collective_failure: str = ""


def judge(reports: Sequence[RankReport], backend: str) -> list[GateCheck]:
    """Turn the reports of all ranks into checks; ``backend`` is what the ranks communicated through."""
    device = _device(reports)
    others = [*(_product(precision, reports) for precision in EPS), _finite(reports), _collective(reports, backend)]
    if device.outcome == "PASSED":
        return [device, *others]
    blocked = f"blocked by: {device.name}"
    return [device, *(replace(check, outcome="BLOCKED", observed=blocked, remedy="") for check in others)]


def _device(reports: Sequence[RankReport]) -> GateCheck:
    failures = [f"rank {rank}: {report.device_failure}" for rank, report in enumerate(reports) if report.device_failure]
    observed = "; ".join(failures) or reports[0].software
    return _check("torch on the device", not failures, observed, "torch computes on every device", _DEVICE_REMEDY)


def _product(precision: str, reports: Sequence[RankReport]) -> GateCheck:
    bound = BOUND_EPS[precision]
    name = f"matrix product {precision}"
    expected = f"<= {bound:g} eps, largest element <= {ELEMENT_FACTOR * bound:g} eps (eps = {EPS[precision]:.1e})"
    lacking = [report.skipped[precision] for report in reports if precision in report.skipped]
    if lacking:
        return GateCheck(name=name, outcome="SKIPPED", observed=lacking[0], expected=expected)
    products = [report.products.get(precision) for report in reports]
    wrong = [rank for rank, product in enumerate(products) if product is None or not product.within(bound)]
    worst = wrong[0] if wrong else max(range(len(products)), key=lambda rank: _size(products[rank]))
    product = products[worst]
    observed = f"rank {worst}: no result"
    if product:
        observed = f"{product.error_eps:.2f} eps, largest element {product.largest_eps:.1f} eps"
        observed += f" (rank {worst})" if len(reports) > 1 else ""
    return _check(name, not wrong, observed, expected, _PRODUCT_REMEDY)


def _size(product: Product | None) -> float:
    return product.error_eps if product else math.inf


def _finite(reports: Sequence[RankReport]) -> GateCheck:
    counts = {
        f"{precision} on rank {rank}": product.num_not_finite
        for rank, report in enumerate(reports)
        for precision, product in report.products.items()
    }
    bad = [f"{count} not finite in {where}" for where, count in counts.items() if count]
    observed = "; ".join(bad) or f"{len(counts)} products, all finite"
    return _check("finite values", bool(counts) and not bad, observed, "every element finite", _PRODUCT_REMEDY)


def _collective(reports: Sequence[RankReport], backend: str) -> GateCheck:
    problems = [f"rank {rank}: {why}" for rank, report in enumerate(reports) if (why := _sum_problem(report))]
    observed = "; ".join(problems) or f"{backend}, {len(reports)} ranks, {reports[0].num_sums} sums exact"
    return _check("collectives", not problems, observed, "all_reduce of known values is exact", _COLLECTIVE_REMEDY)


def _sum_problem(report: RankReport) -> str:
    if report.collective_failure:
        return report.collective_failure
    exact = report.num_sums > 0 and report.num_sums_wrong == 0
    return "" if exact else f"{report.num_sums_wrong} of {report.num_sums} sums wrong"


def _check(name: str, passed: bool, observed: str, expected: str, remedy: str) -> GateCheck:
    return GateCheck(
        name=name,
        outcome="PASSED" if passed else "FAILED",
        observed=observed,
        expected=expected,
        remedy="" if passed else remedy,
    )
