"""A loss, metric or norm that is added up in a 16-bit format."""

from __future__ import annotations

import math

from harness.diagnose.base import Match, Rule
from harness.diagnose.observations import SUMS, Observations

FLOOR = {True: 0.20, False: 0.05}
"""Share of gradients in the last five bits of fp16, with and without anything in bf16. Of the numbers of bf16 that are
so small at most one in eight is exact in fp16; of those of fp32 one in 8192."""

LEAST = 256
"""Gradients below which that says nothing: a few may be exact in fp16, as at convergence, where what is left of a loss
in fp32 is a multiple of 2**-24."""

COARSE = 16
"""Mantissa bits below which a format has 16 bits or fewer."""


ERRORS = (("reduction_error", "reduction_site"), ("running_sum_error", "running_sum_site"))
"""The error of any reduction, where all were looked at, and of sums of Python code; each with its place."""


def possible(observations: Observations) -> bool:
    """Something is in 16 bits, or every reduction was looked at; sums of Python code are followed in any case."""
    has_half = any(name in observations.text("train_formats") for name in ("float16", "bfloat16"))
    bits = (observations.number("eval_output_bits"), observations.number("train_output_bits"))
    is_coarse = any(number is not None and number < COARSE for number in bits)
    return (
        has_half or is_coarse or observations.has("reduction_error") or _is_off(observations) or _went_by(observations)
    )


def judge(observations: Observations) -> Match | None:
    """Compare 16-bit reductions with float64."""
    if not _is_off(observations):
        return _through_fp16(observations) if _went_by(observations) else None
    name, at = ERRORS[0] if observations.at_least("reduction_error", SUMS) else ERRORS[1]
    site, error = observations.text(at), observations.number(name) or 0.0
    seen = (
        f"is off by {error:.3g} of its size against float64"
        if error < math.inf
        else "is not finite where float64 gives a number"
    )
    return Match(
        confidence=0.9,
        summary=(
            f"The reduction '{site}' {seen}: bf16 stops counting at 256 and fp16 at 2048, and fp16 overflows at 65504."
        ),
        evidence=[
            observations.evidence(name, f">= {SUMS}"),
            observations.context(at),
        ],
        confirm="Add the same values up in float32 once: the reported number must change.",
        action="Convert to float32 (or use .item()) before summing losses, metrics and norms.",
    )


def _is_off(observations: Observations) -> bool:
    return any(observations.at_least(name, SUMS) for name, _ in ERRORS)


def _went_by(observations: Observations) -> bool:
    """Whether gradients are in the last bits of fp16 although nothing is computed in it."""
    formats = observations.text("train_formats").split(",")
    is_small = observations.at_least("fp16_floor_share", _floor(formats)) and observations.at_least(
        "grad_elements", LEAST
    )
    return formats != [""] and "float16" not in formats and is_small


def _floor(formats: list[str]) -> float:
    return FLOOR["bfloat16" in formats]


def _through_fp16(observations: Observations) -> Match:
    share = observations.number("fp16_floor_share") or 0.0
    bound = _floor(observations.text("train_formats").split(","))
    return Match(
        confidence=0.8,
        summary=(
            f"Nothing is computed in fp16, yet {share:.0%} of the gradients that reach the optimizer lie in the last "
            "five bits that fp16 has above zero: they were sent or summed in fp16 on the way, and small ones became 0."
        ),
        evidence=[
            observations.evidence("fp16_floor_share", f">= {bound}"),
            observations.evidence("train_formats", "no float16"),
            observations.evidence("grad_elements", f">= {LEAST}"),
            observations.context("zero_grad_share"),
        ],
        confirm="Reduce the gradients in fp32 once: fewer must be exactly zero.",
        action="Send and sum gradients in fp32 or bf16 (no fp16 compression hook, reduce_dtype), or scale them before.",
    )


RULE = Rule(
    category="precision",
    applies=possible,
    needs=("reduction_error",),
    judge=judge,
    sites=("reduction_site", "running_sum_site", "step_site"),
    optional=True,
    partial=True,
)
