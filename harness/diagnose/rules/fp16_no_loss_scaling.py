"""fp16 products without a loss scale, and gradients that are zero only because of it."""

from __future__ import annotations

from harness.diagnose.base import Rule, in_fp16, under_a_scaler
from harness.diagnose.finding import Finding
from harness.diagnose.observations import Observations

WARN = 0.05
"""Healthy fp16 twins of the built-in workloads stay within 0.003 of fp32; without scaling 0.24 to 0.75 was measured."""

CERTAIN = 0.30


def possible(observations: Observations) -> bool:
    """fp16 without a scaler."""
    return in_fp16(observations) and not under_a_scaler(observations)


def judge(observations: Observations) -> Finding | None:
    """Compare exact zeros with an fp32 twin of the same seed."""
    if not observations.at_least("zero_grad_excess", WARN):
        return None
    excess = observations.number("zero_grad_excess") or 0.0
    return Finding(
        category="precision",
        cause="fp16_no_loss_scaling",
        confidence=0.95 if excess >= CERTAIN else 0.8,
        summary=(
            f"{excess:.0%} of the gradient entries are zero in fp16 but not in the fp32 twin with the same "
            "seed, and no "
            "loss scaler is active: gradients below 6e-8 flush to zero and those weights do not learn."
        ),
        evidence=[
            observations.evidence("zero_grad_excess", f">= {WARN}"),
            observations.evidence("scaled_attempts", "= 0"),
            observations.evidence("train_formats", "contains float16"),
        ],
        confirm="Run once with a loss scale of 65536 or with --precision bf16: the excess of zeros must vanish.",
        action=(
            "Use torch.amp.GradScaler with fp16 autocast (scale, unscale_, clip, step, update), or bf16 "
            "instead of fp16."
        ),
    )


RULE = Rule(
    category="precision",
    applies=possible,
    gate=("train_formats", "scaled_attempts"),
    needs=("zero_grad_excess",),
    judge=judge,
)
