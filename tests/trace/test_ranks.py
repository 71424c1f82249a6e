"""Is the rank found that makes the others wait, and no rank where all wait alike?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.trace.diagnosis import TraceDiagnosis
from harness.trace.normal import Trace
from harness.trace.ranks import diagnose_ranks
from harness.trace.torch_json import read_trace
from tests.trace.made import steps


def rank(number: int, talk: float, folder: Path, *, of: int = 4) -> Trace:
    """Return a trace that computes for half of each step, and is in a collective for a part of it."""
    path = folder / f"{number}.json"
    made = steps(compute=(0.0, 0.5), communication=(0.5, 0.5 + talk)) if talk else steps(compute=(0.0, 0.97))
    return replace(read_trace(made.write(path)), rank=number, num_ranks=of)


def told(folder: Path, *talks: float) -> TraceDiagnosis:
    """Diagnose ranks that talk for these shares of their steps; the files come in another order."""
    return diagnose_ranks([rank(at, talk, folder, of=len(talks)) for at, talk in reversed(list(enumerate(talks)))])


@pytest.mark.parametrize("talks", [(0.5, 0.5, 0.5, 0.1), (0.1, 0.5), (0.48, 0.02, 0.5, 0.45, 0.5, 0.5, 0.49, 0.5)])
def test_the_last_to_arrive_waits_least(talks: tuple[float, ...], tmp_path: Path) -> None:
    """It is named, with what it loses time by itself; the waiting of the others is no finding of its own."""
    found = told(tmp_path, *talks)
    assert (found.findings[0].category, found.findings[0].cause) == ("straggler", "straggler_rank")
    assert f"rank {talks.index(min(talks))} for" in found.findings[0].summary
    assert "host_overhead" in found.findings[0].summary
    assert "communication" not in [finding.category for finding in found.findings]


@pytest.mark.parametrize(
    ("talks", "category"), [((0.5, 0.5, 0.45, 0.4), "communication"), ((0.1, 0.02, 0.1), "host_overhead")]
)
def test_who_waits_alike_has_no_straggler(talks: tuple[float, ...], category: str, tmp_path: Path) -> None:
    """All of them communicate for long, or none does."""
    assert told(tmp_path, *talks).findings[0].category == category


def test_shares_are_means_over_the_ranks(tmp_path: Path) -> None:
    """They still add up to 1, and those of each rank are there."""
    found = told(tmp_path, 0.5, 0.3)
    assert found.shares["exposed_communication"] == pytest.approx(0.4, abs=0.01)
    idle = found.shares["idle"]
    assert isinstance(idle, dict)
    parts = [value for value in found.shares.values() if isinstance(value, float)]
    assert sum(parts) + sum(idle.values()) == pytest.approx(1)
    assert list(found.ranks) == ["0", "1"]


def test_ranks_without_a_trace_are_named(tmp_path: Path) -> None:
    """Of four, the first and the last are given."""
    assert diagnose_ranks([rank(0, 0.5, tmp_path), rank(3, 0.5, tmp_path)]).absent == [1, 2]
