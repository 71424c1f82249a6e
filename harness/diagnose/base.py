"""What is a rule? One cause, the observations that it needs, and the judgement over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.diagnose.finding import Category, Evidence
from harness.diagnose.observations import Observations
from harness.registry import Registry


@dataclass(frozen=True, kw_only=True)
class Match:
    """What a rule says when its cause fits; each part is the one of the same name in a Finding."""

    confidence: float
    summary: str
    evidence: list[Evidence]
    confirm: str
    action: str


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One cause; its id is the name of its file."""

    category: Category
    applies: Callable[[Observations], bool]
    """Whether the cause is possible at all in this run: without a live scaler its state cannot be lost."""
    gate: tuple[str, ...] = ()
    """Observations that ``applies`` asks for; a run that does not even say that there was nothing cannot be judged."""
    needs: tuple[str, ...]
    """Observations without which the rule cannot tell."""
    optional: bool = False
    """Whether missing evidence leaves a run healthy: nothing else makes the cause likely."""
    partial: bool = False
    """Whether ``judge`` is asked although something needed is missing: it finds some forms of the cause without it."""
    judge: Callable[[Observations], Match | None]
    """Called when the cause is possible and everything needed is there."""
    sites: tuple[str, ...] = ()
    """Observations that name the line where the fault is, in a script that was watched; the first one that is known."""


RULES: Registry[Rule] = Registry("rule", "harness.diagnose.rules", "RULE")


def always(_: Observations) -> bool:
    """Apply to every run."""
    return True


def in_fp16(observations: Observations) -> bool:
    """Apply to runs with products in fp16."""
    return "float16" in observations.text("train_formats").split(",")


def under_a_scaler(observations: Observations) -> bool:
    """Apply to runs in which a live scaler was seen."""
    return observations.at_least("scaled_attempts", 1)
