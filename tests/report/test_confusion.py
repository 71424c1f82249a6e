"""Is the confusion matrix told as it is?"""

from __future__ import annotations

import pytest

from harness.report.confusion import confusion
from tests.report.sample import sample


def test_confusion_puts_right_answers_on_the_diagonal() -> None:
    """Causes come first on both sides, statuses last."""
    found = confusion(sample(confusion={"healthy": {"healthy": 2, "b": 1}, "b": {"b": 4, "unknown": 1}, "a": {"b": 1}}))
    assert found.columns == ["a", "b", "healthy", "unknown"]
    assert [truth for truth, _ in found.rows] == ["a", "b", "healthy"]
    assert all(cells[index] == (cells[index][0], True) for index, (_, cells) in enumerate(found.rows))


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        ({}, "No run was diagnosed."),
        ({"healthy": {}}, "No run was diagnosed."),
        ({"a": {"a": 2}}, "2 of 2 runs were diagnosed as what they are; no healthy run is among them."),
        (
            {"healthy": {"healthy": 1, "a": 2, "inconclusive": 1}},
            "1 of 4 runs were diagnosed as what they are; 2 of 4 healthy runs got a finding.",
        ),
        (
            {"healthy": {"unknown": 1}},
            "0 of 1 runs were diagnosed as what they are; 1 of 1 healthy runs got a finding.",
        ),
    ],
)
def test_confusion_sentence(counts: dict[str, dict[str, int]], sentence: str) -> None:
    """A false alarm on a healthy run is counted on its own."""
    assert confusion(sample(confusion=counts)).sentence == sentence
