"""Does the head of the page ever claim more than was measured?"""

from __future__ import annotations

from typing import Any

import pytest

from harness.observe.outcome import Gate
from harness.report.model import Check
from harness.report.summary import summarise
from tests.report.sample import check, empty, sample

PLACE = ("scenario_a", "cause", "w", "cpu")
GOOD = Gate(outcome="PASSED", checks=[])


def checks(*outcomes: Any) -> list[Check]:
    """Return one check for each outcome."""
    return [check(PLACE, "control", outcome) for outcome in outcomes]


@pytest.mark.parametrize(
    ("outcomes", "planned", "executed", "headline", "tone"),
    [
        (["PASSED"] * 2, 2, 2, "All 2 planned checks passed", "good"),
        (["PASSED"], 1, 1, "1 planned check passed", "good"),
        (["PASSED"], 2, 1, "1 of 2 planned checks passed, none failed", "warn"),
        (["PASSED", "SKIPPED"], 2, 1, "1 of 2 planned checks passed, none failed", "warn"),
        (["RECORDED"], 1, 1, "0 of 1 planned check passed, none failed", "warn"),
        (["INCONCLUSIVE", "PASSED"], 2, 2, "1 of 2 planned checks passed, none failed", "warn"),
        (["PASSED", "FAILED"], 2, 2, "1 FAILED among 2 planned checks", "bad"),
        (["ERROR", "TIMEOUT"], 2, 2, "1 ERROR, 1 TIMEOUT among 2 planned checks", "bad"),
        (["SKIPPED"], 1, 0, "0 of 1 check executed. Zero executed checks is not a success.", "bad"),
        ([], 0, 0, "0 of 0 checks executed. Zero executed checks is not a success.", "bad"),
    ],
)
def test_summary_headline(outcomes: list[str], planned: int, executed: int, headline: str, tone: str) -> None:
    """Only when every planned check was executed and passed does the page look good."""
    found = summarise(empty(gate=GOOD, checks=checks(*outcomes), planned=planned, executed=executed))
    assert (found.headline, found.tone) == (headline, tone)


@pytest.mark.parametrize("gate", [None, Gate(outcome="INCONCLUSIVE", checks=[])])
def test_summary_without_a_passed_gate_is_not_good(gate: Gate | None) -> None:
    """All checks passed on a device that nobody proved healthy."""
    found = summarise(empty(gate=gate, checks=checks("PASSED"), planned=1, executed=1))
    assert found.tone == "warn"
    assert any("integrity gate" in note for note in found.notes)


def test_summary_without_the_planned_gpu_checks_is_not_good() -> None:
    """Everything passed, and what was planned on a GPU did not run there."""
    found = summarise(empty(gate=GOOD, checks=checks("PASSED"), planned=1, executed=1, gpu_planned=1))
    assert found.tone == "warn"


def test_summary_notices_lost_results() -> None:
    """A check that was planned and has no result is not passed over."""
    found = summarise(empty(gate=GOOD, checks=checks("PASSED"), planned=3, executed=3))
    assert "3 planned checks, but 1 have a result: the session is incomplete." in found.notes
    assert found.tone == "warn"


@pytest.mark.parametrize(
    ("planned", "executed", "note"),
    [
        (0, 0, "No GPU check was planned: this report holds no GPU evidence."),
        (5, 0, "0 of 5 GPU checks executed: this report holds no GPU evidence."),
        (5, 3, "3 of 5 GPU checks executed."),
    ],
)
def test_summary_always_states_gpu_evidence(planned: int, executed: int, note: str) -> None:
    """Whether anything ran on a GPU is the first note."""
    assert summarise(sample(gpu_planned=planned, gpu_executed=executed)).notes[0] == note


@pytest.mark.parametrize(
    ("device", "kind", "proves"),
    [
        ("cuda", "cuda", "real GPUs: the only kind that is GPU evidence"),
        ("cuda:3", "cuda", "real GPUs: the only kind that is GPU evidence"),
        ("tpu", "tpu", "unknown kind, no GPU evidence"),
        ("", "not stated", "unknown kind, no GPU evidence"),
    ],
)
def test_summary_device_kinds(device: str, kind: str, proves: str) -> None:
    """Only cuda counts as GPU evidence, and an unknown kind never does."""
    found = summarise(empty(checks=[check(("s", "c", "w", device), "control", "PASSED")]))
    assert found.kinds == [(kind, proves)]


@pytest.mark.parametrize("outcome", ["SKIPPED", "BLOCKED"])
def test_summary_names_no_device_that_nothing_ran_on(outcome: Any) -> None:
    """A GPU check that was skipped does not put the word cuda under the headline."""
    skipped = check(("s", "c", "w", "cuda"), "control", outcome)
    found = summarise(empty(checks=[*checks("FAILED"), skipped], planned=2, executed=1, gpu_planned=1))
    assert [kind for kind, _ in found.kinds] == ["cpu"]
    assert found.notes[0] == "0 of 1 GPU check executed: this report holds no GPU evidence."


def test_summary_trust_of_another_label_is_not_explained_away() -> None:
    """A label that the report does not know is shown as a claim of its producer."""
    assert summarise(sample(trust="PROCTORED")).trust_meaning == "as stated by whoever produced this report"


def test_summary_environment_leaves_out_what_is_unknown() -> None:
    """The head repeats what is known about the machine, cards first."""
    cards = {"hardware": {"gpus": ["NVIDIA H100"] * 8}, "driver": None, "torch": "2.13.0", "secret": 1}
    assert summarise(sample(environment=cards)).environment == [("gpus", "8 x NVIDIA H100"), ("torch", "2.13.0")]
