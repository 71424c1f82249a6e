"""Does a diagnosis fit on a screen, and is nothing lost when everything is asked for?"""

from __future__ import annotations

from typing import Any

import pytest

from harness.cli.words import SCREEN, WIDTH, as_words, no_longer_found
from harness.diagnose.finding import Diagnosis, Evidence, Finding, Missing
from harness.diagnose.known import Known


def finding(cause: str = "double_unscale", **more: Any) -> Finding:
    """Return a finding with every field filled."""
    entry = Evidence(name="step_norm_ratio", value=0.25, unit="", threshold="< 0.5", source="rank0.jsonl")
    fields: dict[str, Any] = {"category": "precision", "confidence": 0.5, "confirm": "try", "action": "fix"}
    return Finding(cause=cause, **(fields | {"summary": "sum", "evidence": [entry], "place": "a.py:3"} | more))


MISSING = Missing(observation="eval_gap", needed_for="d", command="python train.py")


def test_words_of_every_field() -> None:
    """Asked for everything, the words hold each field of the diagnosis; an empty unit leaves no gap."""
    known = finding("clip_before_unscale")
    result = Diagnosis(status="diagnosed", findings=[finding()], missing=[MISSING], checked=["c"], known=[known])
    assert as_words(result, verbose=True) == [
        "status: diagnosed",
        "",
        "precision: double_unscale at a.py:3 (confidence 50%)",
        "  seen     sum",
        "           step_norm_ratio = 0.25 (bound < 0.5; rank0.jsonl)",
        "             that is: the norm at the step against what unscaling and clipping leave",
        "  confirm  try",
        "  to do    fix",
        "",
        "  missing  for d: the reported metric against an fp32 evaluation of the same weights",
        "           to get it: python train.py",
        "  checked  c",
        "known, judged harmless: precision: clip_before_unscale at a.py:3 (confidence 50%)",
    ]


def test_a_healthy_run_is_one_line() -> None:
    """It says what was checked and what could not be."""
    result = Diagnosis(status="healthy", missing=[MISSING, MISSING], checked=["a", "b"])
    (line,) = as_words(result, read="read: loss")
    assert line.startswith("status: healthy; checked: a, b; read: loss; not checked: d (needs the reported metric")


@pytest.mark.parametrize("findings", [0, 1, 2, 9])
def test_much_to_tell_fits_on_a_screen(findings: int) -> None:
    """As many findings in full as there is room for, the others by name; without any, what is missing first."""
    long = "a sentence of some length that says what was seen, " * 4
    told = [finding(f"cause_{n}", summary=long, confirm=long[:100], action=long[:150]) for n in range(findings)]
    status: Any = "diagnosed" if findings else "not_enough_evidence"
    lines = as_words(Diagnosis(status=status, findings=told, missing=[MISSING] * 9))
    assert len(lines) <= SCREEN
    assert max(map(len, lines)) <= WIDTH
    assert all(any(f"cause_{n}" in line for line in lines) for n in range(findings))


def test_a_cause_that_was_told_needs_no_advice_again() -> None:
    """At another place it is one line."""
    lines = as_words(Diagnosis(status="diagnosed", findings=[finding(), finding(place="b.py:7")]))
    assert lines[-1] == "also precision: double_unscale at b.py:7 (confidence 50%)"
    assert sum("confirm" in line for line in lines) == 1


def test_a_known_finding_that_is_gone_is_told() -> None:
    """Its line can go from the file."""
    known = [Known("double_unscale", "a.py", "why"), Known("clip_before_unscale", "", "why")]
    result = Diagnosis(status="healthy", known=[finding()])
    assert no_longer_found(known, result) == ["known but not found: clip_before_unscale"]
