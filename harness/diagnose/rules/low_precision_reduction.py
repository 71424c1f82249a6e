"""A loss, metric or norm that is added up in a 16-bit format."""

from __future__ import annotations

import math

from harness.diagnose.base import Match, Rule, always
from harness.diagnose.observations import Observations

BOUND = 0.01
"""One rounding to bf16 loses at most 2**-9 = 0.002 and healthy runs reach 0.004; five roundings lose 0.01."""


def judge(observations: Observations) -> Match | None:
    """Compare 16-bit reductions with float64."""
    if not observations.at_least("reduction_error", BOUND):
        return None
    site, error = observations.text("reduction_site"), observations.number("reduction_error") or 0.0
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
            observations.evidence("reduction_error", f">= {BOUND}"),
            observations.context("reduction_site"),
        ],
        confirm="Add the same values up in float32 once: the reported number must change.",
        action="Convert to float32 (or use .item()) before summing losses, metrics and norms.",
    )


RULE = Rule(
    category="precision", applies=always, needs=("reduction_error",), judge=judge, site="reduction_site", optional=True
)
