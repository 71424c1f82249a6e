"""Is a setting adopted for the right reasons only?"""

from __future__ import annotations

import math

import pytest

from harness.diagnose.finding import Diagnosis
from harness.experiment.compare import Arm, Contrast
from harness.experiment.decide import GAIN, decide
from tests.experiment.arms import NOTHING, against, arm, diagnosed, spread, timed

TOLERANCE = 0.01

TABLE: dict[str, tuple[Contrast, str, str]] = {
    "faster in every repeat": (against(speed=spread(1.2, 1.3, 1.4)), "adopt", "1.30 times as fast in every repeat"),
    "faster in most repeats": (against(speed=spread(0.99, 1.3, 1.4)), "inconclusive", "speed is 0.99 to 1.40"),
    "just below a gain": (against(speed=spread(1 + GAIN, 1.1, 1.1)), "inconclusive", "does not tell a gain from noise"),
    "slower in every repeat": (against(speed=spread(0.8, 0.9, 0.95)), "reject", "no gain: 0.90 times"),
    "less memory, as fast": (against(memory=spread(0.5, 0.5, 0.6)), "adopt", "0.50 times the memory, no slower"),
    "less memory, a little slower": (
        against(spread(0.9, 0.95, 1.0), memory=spread(0.5, 0.5, 0.5)),
        "inconclusive",
        "speed is 0.90",
    ),
    "less memory, slower": (
        against(spread(0.5, 0.6, 0.7), memory=spread(0.5, 0.5, 0.5)),
        "inconclusive",
        "speed is 0.50",
    ),
    "nothing differs": (against(), "inconclusive", "does not tell a gain from noise"),
    "faster and worse": (against(spread(2, 2, 2), spread(0.02, 0.03, 0.05)), "reject", "3.0% worse in every repeat"),
    "faster and worse at times": (
        against(spread(2, 2, 2), spread(-0.01, 0.0, 0.05)),
        "inconclusive",
        "between -1.0% and +5.0% worse",
    ),
    "faster and better": (against(spread(2, 2, 2), spread(-0.3, -0.2, -0.1)), "adopt", "2.00 times as fast"),
    "worse within tolerance": (against(spread(2, 2, 2), spread(0.0, 0.005, 0.01)), "adopt", "2.00 times as fast"),
    "metric is no number": (
        against(spread(2, 2, 2), spread(math.inf, math.inf, math.inf)),
        "reject",
        "the validation metric is not finite in any repeat",
    ),
    "metric is no number once": (
        against(spread(2, 2, 2), spread(0, 0, math.inf)),
        "inconclusive",
        "not finite in some of the repeats: more repeats",
    ),
    "metric is missing": (against(spread(2, 2, 2), NOTHING), "inconclusive", "the validation metric is missing"),
    "speed is missing": (against(NOTHING), "inconclusive", "does not tell a gain from noise"),
    "memory is missing": (against(spread(0.8, 0.8, 0.8), memory=NOTHING), "reject", "no gain"),
}


@pytest.mark.parametrize("case", TABLE)
def test_the_decision_table(case: str) -> None:
    """Quality first, then gain; what noise can explain is not decided."""
    contrast, verdict, reason = TABLE[case]
    decision = decide(arm(), contrast, TOLERANCE)
    assert decision.verdict == verdict
    assert reason in decision.reason


def test_one_timed_run_says_nothing_about_speed() -> None:
    """Without a spread a gain cannot be told from noise."""
    decision = decide(arm(timed()), against(spread(3.0)), TOLERANCE)
    assert (decision.verdict, "One repeat has no spread, so speed" in decision.reason) == ("inconclusive", True)


def test_one_run_that_is_worse_is_not_rejected() -> None:
    """What one seed shows may be that seed."""
    decision = decide(arm(timed()), against(quality=spread(0.2)), TOLERANCE)
    assert decision.verdict == "inconclusive"
    assert "20.0% worse, tolerated is 1.0%. One repeat has no spread: more repeats" in decision.reason


def test_one_run_whose_metric_is_not_finite_is_rejected() -> None:
    """That needs no repetition."""
    decision = decide(arm(timed()), against(quality=spread(math.inf)), TOLERANCE)
    assert (decision.verdict, decision.reason) == ("reject", "the validation metric is not finite")


def test_one_run_that_is_slower_is_no_argument_against_a_fix() -> None:
    """Its speed is not judged."""
    decision = decide(arm(timed(), diagnosis=diagnosed("a")), against(spread(0.5)), TOLERANCE)
    assert decision.verdict == "adopt with a fix"
    assert decision.reason == "a: fix it. One repeat has no spread, so speed is not judged"


BROKEN = arm(timed(), timed(state="oom"))


TWICE = spread(2, 2, 2)

JUDGED: dict[str, tuple[Arm, Contrast, str, str]] = {
    "finding": (arm(diagnosis=diagnosed("a")), against(TWICE), "adopt with a fix", "a: fix it"),
    "finding and slower": (arm(diagnosis=diagnosed("a")), against(spread(0.5)), "reject", "no gain: 0.50"),
    "unknown": (arm(diagnosis=diagnosed("unknown")), against(TWICE), "adopt", "2.00 times as fast"),
    "second finding": (arm(diagnosis=diagnosed("unknown", "a")), against(), "adopt with a fix", "a: fix it"),
    "broken": (BROKEN, against(TWICE), "reject", "the run ended as oom: rank 0 oom"),
    "broken with a cause": (
        arm(*BROKEN.runs, diagnosis=diagnosed("a")),
        against(),
        "adopt with a fix",
        "Not as it is, because",
    ),
}


@pytest.mark.parametrize("case", JUDGED)
def test_findings_and_broken_runs(case: str) -> None:
    """A known cause comes with its fix; a run that broke is never adopted as it is."""
    judged, contrast, verdict, reason = JUDGED[case]
    decision = decide(judged, contrast, TOLERANCE)
    assert decision.verdict == verdict
    assert reason in decision.reason


def test_a_healthy_diagnosis_is_no_argument_by_itself() -> None:
    """Without any gain there is nothing to adopt."""
    assert decide(arm(diagnosis=Diagnosis(status="healthy")), against(), TOLERANCE).verdict == "inconclusive"
