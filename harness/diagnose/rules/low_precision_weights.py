"""Weights or optimizer state held in 16 bits without fp32 master weights: updates round away, or divide by zero."""

from __future__ import annotations

from harness.diagnose.base import Match, Rule
from harness.diagnose.finding import Evidence
from harness.diagnose.observations import STALLED, Observations

HALF = ("half_weight_share", "half_state_share")

ACTION = (
    "Keep the weights and the optimizer state in fp32 (drop model.bfloat16() or .half()) and compute under autocast."
)

LATER = "stalled_half_between"
"""What still stalls when updates that were kept for later, or rounded at random, have arrived."""

FLUSHED = 0.01
"""Share of the moments from which a division by zero is no accident; 0 in fp32 and bf16, whose range holds the squares.
Measured: 0.73 for the digits perceptron held in fp16, whose weights are not finite after the first step."""


ROUNDED = 0.99
"""See harness.observe.rounding."""


def possible(observations: Observations) -> bool:
    """Some trainable weights, or the optimizer's state, are in a 16-bit format, or make a round trip through one."""
    return bool(_in_half(observations)) or observations.at_least("rounded_weight_share", ROUNDED)


def judge(observations: Observations) -> Match | None:
    """Look at the updates that are lost: those that round away, and those that divide by a square that did."""
    if not _in_half(observations):
        return _rounded(observations)
    flushed = observations.at_least("flushed_moment_share", FLUSHED)
    if flushed and observations.at_least("lost_weights_step", 1):
        return _divided_by_nothing(observations)
    arrived = observations.has(LATER) and not observations.at_least(LATER, STALLED)
    if not observations.at_least("stalled_half_share", STALLED) or arrived:
        return None
    share = observations.number("stalled_half_share") or 0.0
    return Match(
        confidence=0.95 if share > 2 * STALLED else 0.8,
        summary=(
            f"The optimizer updates weights in {observations.text('weight_dtypes')}, and {share:.0%} of those with a "
            "non-zero gradient stay bitwise the same in a step: the update is below half of the format's spacing."
        ),
        evidence=[
            observations.evidence("stalled_half_share", f">= {STALLED}"),
            *([observations.evidence(LATER, f">= {STALLED}")] if observations.has(LATER) else []),
            *_in_half(observations),
            observations.context("weight_dtypes"),
        ],
        confirm="Run once with a ten times larger learning rate: the stalled share must fall clearly.",
        action=ACTION,
    )


def _rounded(observations: Observations) -> Match | None:
    """Tell of fp32 weights that are rounded between the steps."""
    names = ("stalled_rounded_share", "stalled_rounded_between")
    if not all(observations.at_least(name, STALLED) for name in names):
        return None
    share = observations.number("stalled_rounded_share") or 0.0
    return Match(
        confidence=0.85,
        summary=(
            "The optimizer holds its weights in fp32, but each step begins with weights that were rounded to 16 bits: "
            f"{share:.0%} of the updates are below half of that format's spacing and are lost."
        ),
        evidence=[
            observations.evidence("rounded_weight_share", f">= {ROUNDED}"),
            *(observations.evidence(name, f">= {STALLED}") for name in names),
        ],
        confirm="Run once with a ten times larger learning rate: the stalled share must fall clearly.",
        action="Never write the 16-bit copy back into the fp32 weights: it is made from them, in each step.",
    )


def _in_half(observations: Observations) -> list[Evidence]:
    """Return which of the two is in a 16-bit format at all."""
    return [observations.evidence(name, "> 0") for name in HALF if (observations.number(name) or 0.0) > 0.0]


def _divided_by_nothing(observations: Observations) -> Match:
    share = observations.number("flushed_moment_share") or 0.0
    return Match(
        confidence=0.95,
        summary=(
            f"Adam keeps its moments in float16: in {share:.0%} of them the squared gradient is below the smallest "
            "number of the format, and so is its eps of 1e-8, so the update divides by zero and the weights are "
            f"not finite from step {observations.number('lost_weights_step'):.0f} on."
        ),
        evidence=[
            observations.evidence("flushed_moment_share", f">= {FLUSHED}"),
            observations.evidence("lost_weights_step", ">= 1"),
            *_in_half(observations),
        ],
        confirm="Run once with eps=1e-4, which float16 can hold: the weights must stay finite.",
        action=ACTION,
    )


RULE = Rule(
    category="precision",
    applies=possible,
    gate=HALF,
    needs=("stalled_half_share",),
    judge=judge,
    sites=("step_site",),
)
