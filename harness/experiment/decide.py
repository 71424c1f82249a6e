"""Should this setting be deployed? Adopt, adopt with a fix, reject, or not decidable from what was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from harness.diagnose.finding import Diagnosis, Finding
from harness.experiment.compare import Arm, Contrast, Spread

Verdict = Literal["adopt", "adopt with a fix", "reject", "inconclusive"]

GAIN = 0.03
"""Smallest gain in speed or memory that counts. An assumption: nobody exchanges a precision for less."""

NO_SPREAD = "One repeat has no spread"

MORE = "more repeats are needed"


@dataclass(frozen=True)
class Decision:
    """The verdict on one arm and its reason."""

    verdict: Verdict
    reason: str


def decide(arm: Arm, contrast: Contrast, tolerance: float) -> Decision:
    """Judge quality first, then gain: speed is no argument for a model that got worse."""
    if arm.state != "completed":
        message = next(run.message for run in arm.runs if run.state != "completed")
        return _broken(arm, f"the run ended as {arm.state}: {message[:200]}")
    finding = next((f for f in arm.diagnosis.findings if f.cause != "unknown"), None)
    repeated = len(arm.runs) > 1
    if finding is not None:
        return _found(finding, arm.diagnosis, contrast, repeated)
    return _worse(contrast.quality, tolerance, repeated) or _gain(contrast, repeated)


def _found(finding: Finding, diagnosis: Diagnosis, contrast: Contrast, repeated: bool) -> Decision:
    """A fault that is known: is it worth to be fixed?"""
    if diagnosis.status == "inconclusive":
        return Decision("inconclusive", finding.summary)
    fix = f"{finding.cause}: {finding.action}"
    if not repeated:
        return Decision("adopt with a fix", f"{fix.rstrip('.')}. {NO_SPREAD}, so speed is not judged")
    slower = _no_gain(contrast)
    return Decision("reject", f"{slower}; and there is {fix}") if slower else Decision("adopt with a fix", fix)


def _worse(quality: Spread, tolerance: float, repeated: bool) -> Decision | None:
    """Return a decision when the metric is missing, worse, or worse in some repeats; None within tolerance."""
    if math.isnan(quality.middle):
        return Decision("inconclusive", "the validation metric is missing, or the baseline's is not finite")
    if math.isinf(quality.high):
        return _not_finite(everywhere=math.isinf(quality.low), repeated=repeated)
    if quality.low > tolerance:
        worse = f"quality is {quality.middle:.1%} worse"
        if not repeated:
            return Decision("inconclusive", f"{worse}, tolerated is {tolerance:.1%}. {NO_SPREAD}: {MORE}")
        return Decision("reject", f"{worse} in every repeat, tolerated is {tolerance:.1%}")
    if quality.high > tolerance:
        return Decision(
            "inconclusive",
            f"quality is between {_signed(quality.low)} and {_signed(quality.high)} worse over the repeats, tolerated "
            f"is {tolerance:.1%}: {MORE}",
        )
    return None


def _not_finite(*, everywhere: bool, repeated: bool) -> Decision:
    where = "" if not repeated else " in any repeat" if everywhere else f" in some of the repeats: {MORE}"
    return Decision("reject" if everywhere else "inconclusive", f"the validation metric is not finite{where}")


def _broken(arm: Arm, reason: str) -> Decision:
    fix = next((f"{f.cause}: {f.action}" for f in arm.diagnosis.findings if f.cause != "unknown"), "")
    if not fix:
        return Decision("reject", reason)
    return Decision("adopt with a fix", f"Not as it is, because {reason}; fix this first and compare again: {fix}")


def _gain(contrast: Contrast, repeated: bool) -> Decision:
    speed, memory = contrast.speed, contrast.memory
    if not repeated:
        return Decision("inconclusive", f"quality is within tolerance. {NO_SPREAD}, so speed is not judged: {MORE}")
    if speed.low > 1 + GAIN:
        return Decision(
            "adopt", f"quality is within tolerance and it is {speed.middle:.2f} times as fast in every repeat"
        )
    if slower := _no_gain(contrast):
        return Decision("reject", slower)
    if memory.high < 1 - GAIN and speed.middle >= 1 - GAIN:
        return Decision("adopt", f"quality is within tolerance, {memory.middle:.2f} times the memory, no slower")
    return Decision(
        "inconclusive",
        f"quality is within tolerance; speed is {speed.low:.2f} to {speed.high:.2f} times the baseline's, which does "
        "not tell a gain from noise",
    )


def _no_gain(contrast: Contrast) -> str:
    """Return that it is slower in every repeat and saves no memory, or an empty text."""
    if not contrast.speed.high < 1 - GAIN or contrast.memory.high < 1 - GAIN:
        return ""
    return f"no gain: {contrast.speed.middle:.2f} times the baseline's speed, no less memory"


def _signed(value: float) -> str:
    return f"{value:+.1%}"
