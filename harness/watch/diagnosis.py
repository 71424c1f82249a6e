"""What is wrong with a watched command? The diagnoses of its processes, merged."""

from __future__ import annotations

from collections.abc import Collection

from harness.diagnose.diagnosis import diagnose, merged
from harness.diagnose.finding import Diagnosis
from harness.diagnose.known import Known
from harness.diagnose.observations import Observations
from harness.runs import Run


def diagnose_processes(runs: list[Run], known: Collection[Known] = ()) -> Diagnosis:
    """Return one diagnosis of the processes of a command; a fault that several of them share is told once."""
    return merged([diagnose(Observations(run), known) for run in runs], each_cause_once=True)
