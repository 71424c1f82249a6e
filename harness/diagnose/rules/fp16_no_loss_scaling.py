"""fp16 products without a loss scale, and gradients that are zero only because of it."""

from __future__ import annotations

from harness.diagnose.base import Match, Rule, in_fp16, under_a_scaler
from harness.diagnose.observations import Observations

WARN = 0.05
"""Healthy fp16 twins of the built-in workloads stay within 0.003 of fp32; without scaling 0.24 to 0.75 was measured."""

CERTAIN = 0.30
"""From here on the finding is told more surely; whether there is one does not depend on it."""

FLOOR = 0.30
"""Without a twin. Measured on digits, as the share of gradients in the last five bits above zero: 0.001 to 0.011 with
the usual mean loss, 0.03 to 0.07 with a tenth of it, and 0.4 to 0.85 with a thousandth, where zeros begin to be more
than in fp32; at most 0.005 under a loss scaler."""


LOST = 0.2
"""See harness.diagnose.rules.static_scale_overflow: gradients that were infinite and are made 0 are no small ones."""


def possible(observations: Observations) -> bool:
    """fp16 without a scaler, and gradients that are finite as the backward pass leaves them."""
    is_lost = observations.at_least("lost_backward_share", LOST)
    return in_fp16(observations) and not under_a_scaler(observations) and not is_lost


def judge(observations: Observations) -> Match | None:
    """Compare exact zeros with an fp32 twin of the same seed, or look how many gradients are about to become zero."""
    if observations.reference is not None:
        return _against_twin(observations)
    if not observations.at_least("fp16_floor_share", FLOOR):
        return None
    share = observations.number("fp16_floor_share") or 0.0
    return Match(
        confidence=0.85 if share >= 2 * FLOOR else 0.7,
        summary=(
            f"Products are in fp16 without a loss scaler, and {share:.0%} of the "
            "gradients that are left lie in the last five bits that fp16 has above zero: about as many have become 0, "
            "and those weights do not learn."
        ),
        evidence=[
            observations.evidence("fp16_floor_share", f">= {FLOOR}"),
            observations.evidence("scaled_attempts", "= 0"),
            observations.evidence("train_formats", "contains float16"),
            observations.context("zero_grad_share"),
        ],
        confirm="Run once in fp32 with the same seed: fewer gradients must be exactly zero.",
        action=ACTION,
    )


def _against_twin(observations: Observations) -> Match | None:
    if not observations.at_least("zero_grad_excess", WARN):
        return None
    excess = observations.number("zero_grad_excess") or 0.0
    return Match(
        confidence=0.95 if excess >= CERTAIN else 0.8,
        summary=(
            f"{excess:.0%} of the gradient entries are zero in fp16 but not in the fp32 twin with the same "
            "seed, and no loss scaler is active: gradients below 6e-8 flush to zero and those weights do not learn."
        ),
        evidence=[
            observations.evidence("zero_grad_excess", f">= {WARN}"),
            observations.evidence("scaled_attempts", "= 0"),
            observations.evidence("train_formats", "contains float16"),
        ],
        confirm="Run once with a loss scale of 65536 or with --precision bf16: the excess of zeros must vanish.",
        action=ACTION,
    )


ACTION = "Use torch.amp.GradScaler with fp16 autocast (scale, unscale_, clip, step, update), or bf16 instead of fp16."

RULE = Rule(
    category="precision",
    applies=possible,
    gate=("train_formats", "scaled_attempts"),
    needs=("fp16_floor_share",),
    judge=judge,
    sites=("backward_site",),
)
