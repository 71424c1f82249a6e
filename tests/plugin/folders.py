"""Exam sessions over a small folder of scenarios: real pytest processes, hand-made judgements, no training."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.devices.leases import FOLDER_VARIABLE

ROOT = Path(__file__).parents[2]

CONFTEST = """
import os
import harness.plugin.session as session
from harness.observe.outcome import Gate, GateCheck

pytest_plugins = ["harness.plugin.main"]

def gate(kind, devices, out, **more):
    with open(out / "gates.txt", "a") as file:
        file.write(f"{os.getpid()}\\n")
    return Gate(outcome="PASSED", checks=[GateCheck(name="stand-in", outcome="PASSED", observed="-", expected="-")])

session.run_gate = gate
"""
"""Registers the plugin; the gate costs seconds, so most tests only count how often it was asked."""

REAL_GATE = 'pytest_plugins = ["harness.plugin.main"]\n'

SETTINGS = "[pytest]\nstrict = true\nfilterwarnings = error\nmarkers =\n    gpu: needs a GPU\n"

HEAD = """
import os, pathlib, pytest, signal, time
from harness.exam.invariants import Judgement

def judgement(outcome, **more):
    fields = {"outcome": outcome, "expected": "0 to 1", "observed": 0.5, "reason": f"because {outcome}"}
    return Judgement(**fields | more)
"""

LIMIT_S = 120
"""A session that hangs fails its test instead of stopping the run."""


@dataclass(frozen=True)
class Ended:
    """How a session ended, and the folder that it left."""

    status: int
    out: str
    err: str
    folder: Path

    @property
    def results(self) -> dict[str, Any]:
        """The content of results.json."""
        data: dict[str, Any] = json.loads((self.folder / "results.json").read_text())
        return data

    @property
    def outcomes(self) -> dict[str, str]:
        """Test name -> outcome, from results.json."""
        return {name: row["outcome"] for name, row in self.rows.items()}

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """Test name -> row, from results.json."""
        return {short(row["id"]): row for row in self.results["checks"]}

    @property
    def records(self) -> list[dict[str, Any]]:
        """The records of evidence.jsonl that can be read."""
        lines = (self.folder / "evidence.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    @property
    def verdicts(self) -> dict[str, str]:
        """Test name -> verdict, from the evidence."""
        return {short(r["subject"]): r["verdict"] for r in self.records if r["kind"] == "check"}

    @property
    def page(self) -> str:
        """The content of report.html."""
        return (self.folder / "report.html").read_text()

    @property
    def junit(self) -> dict[str, ET.Element]:
        """Test name -> its element in junit.xml."""
        tree = ET.parse(self.folder / "junit.xml")  # our own file
        return {case.attrib["name"].partition("@")[0]: case for case in tree.iter("testcase")}


@dataclass(frozen=True)
class Exam:
    """A folder with a conftest and scenarios, in which sessions run."""

    root: Path

    @classmethod
    def of(cls, root: Path, code: str, conftest: str = CONFTEST) -> Exam:
        """Write the folder."""
        (root / "scenarios").mkdir(parents=True)
        (root / "conftest.py").write_text(conftest)
        (root / "pytest.ini").write_text(SETTINGS)
        (root / "scenarios" / "test_sample.py").write_text(HEAD + code)
        return cls(root)

    def start(self, *words: str, out: str = "out", given: str = "scenarios/", **environ: str) -> subprocess.Popen[str]:
        """Start a session in a process group of its own."""
        command = [sys.executable, "-m", "pytest", *given.split(), "-p", "no:cacheprovider", *words]
        return subprocess.Popen(
            [*command, "--exam-out", out] if out else command,
            cwd=self.root,
            env=surroundings(self.root) | environ,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, *words: str, out: str = "out", given: str = "scenarios/", **environ: str) -> Ended:
        """Run a session to its end."""
        return self.ended(self.start(*words, out=out, given=given, **environ), out)

    def ended(self, process: subprocess.Popen[str], out: str = "out") -> Ended:
        """Wait for the end of a session."""
        try:
            stdout, stderr = process.communicate(timeout=LIMIT_S)
        finally:
            stop(process)
        return Ended(process.returncode, stdout, stderr, self.root / out)


def surroundings(root: Path) -> dict[str, str]:
    """Return the environment of a session: our code, leases of its own, no GPU, nothing of the pytest around it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return kept | {"PYTHONPATH": str(ROOT), FOLDER_VARIABLE: str(root / "leases"), "CUDA_VISIBLE_DEVICES": ""}


def stop(process: subprocess.Popen[str]) -> None:
    """Kill what is left of a process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def wait_for(reached: Callable[[], bool]) -> None:
    """Wait until something has happened."""
    deadline = time.monotonic() + LIMIT_S
    while not reached():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def short(nodeid: str) -> str:
    """Return the name of a test without its file and group."""
    return nodeid.rpartition("::")[2].partition("@")[0]
