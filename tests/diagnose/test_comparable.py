"""Is every difference between two runs found that nobody declared, and no other?"""

from __future__ import annotations

from typing import Any

import pytest

from harness.config import RunSpec
from harness.diagnose.comparable import FACTS, IGNORED, IMPLIED, undeclared_differences
from tests.diagnose.records import run_of

ENVIRONMENT: dict[str, Any] = {"python": "3.11", "torch": "2.13", "cuda": "13", "hostname": "a"}


def differences(mine: dict[str, Any], theirs: dict[str, Any], declared: tuple[str, ...] = ("precision",)) -> list[str]:
    """Return the undeclared differences of two start records."""
    return undeclared_differences(run_of(start=mine), run_of(start=theirs), declared)


def test_equal_runs_have_none() -> None:
    """The same start record twice."""
    assert differences({}, {}, ()) == []


def test_the_declared_part_is_allowed_and_the_others_are_listed() -> None:
    """One line for each, with both values."""
    mine = {"spec": {"precision": "bf16", "seed": 1, "lr": 0.1}}
    theirs = {"spec": {"precision": "fp32", "seed": 2, "lr": 0.1, "augment": True}}
    assert differences(mine, theirs) == ["augment: unknown and True", "seed: 1 and 2"]
    assert differences(mine, theirs, ("precision", "seed", "augment")) == []


@pytest.mark.parametrize("fact", FACTS)
def test_each_fact_must_agree(fact: str) -> None:
    """Data, shapes, ranks and device."""
    assert differences({fact: "a"}, {fact: "b"}) == [f"{fact}: a and b"]
    assert len(differences({fact: "a"}, {fact: None})) == 1


@pytest.mark.parametrize(("part", "facts"), IMPLIED.items())
def test_a_declared_part_brings_its_facts(part: str, facts: set[str]) -> None:
    """Another size has other shapes by itself."""
    assert differences(dict.fromkeys(facts, 1), dict.fromkeys(facts, 2), (part,)) == []


@pytest.mark.parametrize("part", sorted(IGNORED))
def test_what_changes_no_number_is_ignored(part: str) -> None:
    """How closely a run is watched is not part of the comparison."""
    assert part in RunSpec.__struct_fields__
    assert differences({"spec": {part: 1}}, {"spec": {part: 2}}) == []


def test_versions_must_agree_and_the_host_need_not() -> None:
    """Another torch can change numbers, another host name cannot."""
    other = ENVIRONMENT | {"hostname": "b", "torch": "2.12"}
    assert differences({"environment": ENVIRONMENT}, {"environment": other}) == ["version of torch: 2.13 and 2.12"]


@pytest.mark.parametrize("garbage", [None, "abc", [1], 7])
def test_garbage_is_a_difference_and_no_error(garbage: Any) -> None:
    """A start record that says nothing is not the same as one that does."""
    assert differences({"spec": garbage, "environment": garbage}, {"environment": ENVIRONMENT})
