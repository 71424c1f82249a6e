"""What does a scenario module get? The incident that it is parametrized with, and a judge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.config import RunSpec
from harness.errors import HarnessError
from harness.exam.incident import Incident
from harness.exam.invariants import INVARIANTS, Judgement
from harness.experiment.store import RunStore
from harness.plugin import checks
from harness.plugin.evidence import Kept, evidence_of
from harness.plugin.places import BasePlace, Place

KEPT = pytest.StashKey[Kept]()
STORE = pytest.StashKey[RunStore]()
OUT = pytest.StashKey[Path]()

Judge = Callable[[Callable[[], Judgement], str], None]


@pytest.fixture(scope="session")
def run_store(pytestconfig: pytest.Config) -> RunStore:
    """The runs of this session."""
    return pytestconfig.stash[STORE]


@pytest.fixture
def incident(place: Place, run_store: RunStore) -> Incident:
    """The incident of this item."""
    return place.incident(run_store)


@pytest.fixture
def base_spec(base_place: BasePlace) -> RunSpec:
    """The healthy run of this item."""
    return base_place.spec()


@pytest.fixture
def judge(request: pytest.FixtureRequest, run_store: RunStore) -> Judge:
    """Carry a judgement into the report and end the test with its outcome."""

    def judge(decide: Callable[[], Judgement], title: str) -> None:
        judgement = decide()
        item = request.node
        checks.judge(item, judgement, title, run_store.options)
        item.stash[KEPT] = evidence_of(judgement, run_store, item.config.stash[OUT])
        text = f"{judgement.expected}; observed {judgement.observed}. {judgement.reason}"
        if judgement.outcome in checks.NOT_PASSED:
            pytest.skip(f"{judgement.outcome}: {judgement.reason}")
        if judgement.outcome in {"ERROR", "TIMEOUT"}:
            raise HarnessError(text)
        if judgement.outcome == "FAILED":
            pytest.fail(f"expected {text}", pytrace=False)

    return judge


def in_order(incident: Incident, invariant: str) -> Judgement:
    """Judge an invariant; it is BLOCKED when one of those before it does not hold.

    The runs are kept, so judging the earlier ones again only reads their records: this holds in any
    order and in any process.
    """
    if incident.impossible:
        return Judgement(outcome="SKIPPED", expected="", observed=None, reason=incident.impossible)
    order = list(INVARIANTS)
    for name in order[: min(order.index(invariant), order.index("diagnosis"))]:
        earlier = INVARIANTS[name](incident)
        if earlier.outcome == "SKIPPED":
            return earlier
        if earlier.outcome != "PASSED":
            return Judgement(outcome="BLOCKED", expected="", observed=None, reason=f"by {name}: {earlier.reason}")
    return INVARIANTS[invariant](incident)
