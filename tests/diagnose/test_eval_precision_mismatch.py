"""Does the gap of the outputs decide in a script whose metric nobody knows, and only there?"""

from __future__ import annotations

from typing import Any

import pytest

from harness.diagnose.diagnosis import diagnose
from harness.diagnose.finding import Diagnosis
from harness.diagnose.observations import Observations
from harness.diagnose.rules.eval_precision_mismatch import CLEAR_GAP, OUTPUT_GAP
from tests.diagnose.records import run_of

WATCHED = {"watched": True, "command": "python mine.py"}

UNKNOWN: dict[str, Any] = {"val_metric": None, "val_metric_fp32": None, "val_standard_error": None}
"""What a script that is watched does not tell."""

COARSE = {"eval_output_bits": 7, "eval_weight_bits": 7}


def watched(**summary: Any) -> Diagnosis:
    """Return the diagnosis of a script under observation."""
    return diagnose(Observations(run_of(UNKNOWN | summary, WATCHED)))


@pytest.mark.parametrize("bits", [COARSE, {}], ids=["coarser", "rounded weights in fp32"])
@pytest.mark.parametrize(
    ("gap", "confidence"),
    [
        (0.99 * OUTPUT_GAP, None),
        (OUTPUT_GAP, 0.7),
        (0.99 * CLEAR_GAP, 0.7),
        (CLEAR_GAP, 0.9),
        (float("inf"), 0.9),
        (float("nan"), None),
    ],
)
def test_the_gap_of_the_outputs_decides(bits: dict[str, int], gap: float, confidence: float | None) -> None:
    """At the bound and above it the cause is named, the more surely the larger the gap; below it is not this cause."""
    result = watched(observe="full", eval_output_gap=gap, **bits)
    found = [(finding.cause, finding.confidence) for finding in result.findings]
    assert found == ([("eval_precision_mismatch", confidence)] if confidence else [])
    assert result.status == ("diagnosed" if confidence else "healthy")


def test_the_finding_says_what_was_measured() -> None:
    """First the gap with its bound, then the formats."""
    (finding,) = watched(observe="full", eval_output_gap=0.42, **COARSE).findings
    assert "off by 42% of their spread" in finding.summary
    names = [(entry.name, entry.threshold) for entry in finding.evidence]
    assert names[0] == ("eval_output_gap", f">= {OUTPUT_GAP}")
    assert ("eval_weight_bits", "< 23") in names


def test_the_default_level_asks_for_the_full_one() -> None:
    """Formats are known there, and what they do is not."""
    result = watched(observe="default", **COARSE)
    (missing,) = [entry for entry in result.missing if entry.needed_for == "eval_precision_mismatch"]
    assert result.status == "not_enough_evidence"
    assert (missing.observation, missing.command) == ("eval_gap", "gpu-exam watch --level full -- python mine.py")


def test_the_full_level_does_not_ask_for_itself() -> None:
    """Where nothing could be measured the next experiment is the user's own."""
    result = watched(observe="full", eval_output_gap=None, **COARSE)
    (missing,) = [entry for entry in result.missing if entry.needed_for == "eval_precision_mismatch"]
    assert "--level" not in missing.command
    assert "evaluate the trained weights in fp32" in missing.command


@pytest.mark.parametrize("start", [{}, WATCHED], ids=["own run", "watched"])
def test_a_known_metric_decides_alone(start: dict[str, Any]) -> None:
    """Where the metric in fp32 is known outputs do not matter: an argmax does not see most of what they lose."""
    result = diagnose(Observations(run_of(COARSE | {"eval_output_gap": 0.5}, start)))
    assert (result.findings, result.status) == ([], "healthy")
