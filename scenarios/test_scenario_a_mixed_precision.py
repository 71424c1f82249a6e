"""Scenario A: mixed precision is faster, but validation quality regresses.

For each cause, on each workload and device kind, five invariants must hold in this order: the healthy
twin shows no finding; the fault moves its observation; the diagnosis names the cause from evidence
alone; one change moves the observation back; the accepted fix restores quality, and a cheat does not.
"""

from __future__ import annotations

import pytest

from harness.config import RunSpec
from harness.exam.baseline import baseline
from harness.exam.incident import Incident
from harness.exam.invariants import INVARIANTS
from harness.experiment.store import RunStore
from harness.plugin.fixtures import Judge, in_order

SCENARIO = "scenario_a"


def test_baseline(base_spec: RunSpec, run_store: RunStore, judge: Judge) -> None:
    """The same spec, run twice, gives the same losses."""
    judge(lambda: baseline(run_store, base_spec), "the same spec, run twice, gives the same losses")


@pytest.mark.parametrize("invariant", INVARIANTS)
def test_incident(incident: Incident, invariant: str, judge: Judge) -> None:
    """The five diagnostic invariants of one cause."""
    judge(lambda: in_order(incident, invariant), (INVARIANTS[invariant].__doc__ or "").splitlines()[0])
