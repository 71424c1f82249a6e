"""Do the project's own scenarios give the same rows in one process and in two, with evidence that holds?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.observe.evidence import read_records, verify
from tests.plugin.conftest import MODES
from tests.plugin.folders import ROOT, Ended, surroundings
from tests.report.tree import parse

CHOSEN = "digits_mlp and (uncontrolled_comparison or baseline) and not cuda"
INVARIANTS = ["control", "symptom", "diagnosis", "confirm", "remedy"]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """One session in one process, one in two."""
    root = tmp_path_factory.mktemp("real")
    return {mode: run(root, mode) for mode in ("serial", "parallel")}


def run(root: Path, mode: str) -> Ended:
    """Run a few real checks."""
    words = [*MODES[mode], "-k", CHOSEN, "--exam-out", str(root / mode), "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "scenarios/", *words]
    done = subprocess.run(
        command, cwd=ROOT, env=surroundings(root), capture_output=True, text=True, check=False, timeout=300
    )
    return Ended(done.returncode, done.stdout, done.stderr, root / mode)


def test_same_rows(sessions: dict[str, Ended]) -> None:
    """The numbers of every row are the same: the runs repeat bitwise on a CPU."""
    serial, parallel = (compared(sessions[mode]) for mode in ("serial", "parallel"))
    assert serial == parallel
    assert sorted(row["invariant"] for row in serial) == sorted([*INVARIANTS, "check"])
    assert {row["outcome"] for row in serial} == {"PASSED"}


@pytest.mark.parametrize("mode", ["serial", "parallel"])
def test_evidence_names_runs(sessions: dict[str, Ended], mode: str) -> None:
    """Each record has the command of the run that decided it, its numbers, and its records as an artefact."""
    ended = sessions[mode]
    assert ended.status == 0
    assert verify(ended.folder, ended.results["evidence_head"]).problems == []
    checks = [record for record in read_records(ended.folder) if record.kind == "check"]
    assert len(checks) == 6
    assert all(record.command[:2] == ["python", "train.py"] for record in checks)
    assert all(record.values and record.artifacts and record.tolerance for record in checks)


@pytest.mark.parametrize("mode", ["serial", "parallel"])
def test_page_of_a_cpu_session(sessions: dict[str, Ended], mode: str) -> None:
    """The head names the cpu alone, the incident has five marks, the baseline has one."""
    page = parse(sessions[mode].page)
    (kinds,) = page.all("ul", "kinds")
    assert kinds.text.startswith("cpu ")
    assert "cuda" not in kinds.text
    marks = {link.attributes["href"]: len(link.all("span", "one")) for link in page.section("matrix").all("a")}
    assert marks == {
        "#scenario-a-baseline-digits-mlp-cpu": 1,
        "#scenario-a-uncontrolled-comparison-digits-mlp-cpu": 5,
    }


def compared(ended: Ended) -> list[dict[str, Any]]:
    """Return the rows without what differs from session to session."""
    return [row | {"seconds": 0, "evidence": []} for row in ended.results["checks"]]
