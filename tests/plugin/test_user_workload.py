"""Does a user's own workload run in the scenarios, whatever its file is called, and is a broken one told as such?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.observe.evidence import verify
from tests.plugin.folders import ROOT, Ended, surroundings
from tests.plugin.test_html_extras import extra, shown
from tests.report.tree import parse

NAME = "<script>alert(1) & 'mine'.py"

CODE = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

def build():
    inputs = torch.linspace(0, 1, 1024).reshape(256, 4)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    loss = nn.functional.mse_loss
    return {"model": nn.Linear(4, 1), "train_data": data, "val_data": data, "loss": loss, "metric": loss,
            "metric_goal": "min"}

def broken():
    raise RuntimeError("<b>no weights</b>")
"""


def run(root: Path, factory: str) -> Ended:
    """Run the baseline of a user's workload in a real session."""
    (root / NAME).write_text(CODE)
    words = ["-k", "baseline and not cuda", "--workload", f"{root / NAME}:{factory}", "--exam-out", str(root / "out")]
    command = [sys.executable, "-m", "pytest", "scenarios/", *words, f"--html={root}/x.html", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=ROOT, env=surroundings(root), capture_output=True, text=True, check=False, timeout=120
    )
    return Ended(done.returncode, done.stdout, done.stderr, root / "out")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A session with a workload whose file name is markup."""
    return run(tmp_path_factory.mktemp("user"), "build")


def test_user_workload_takes_the_place_of_ours(ended: Ended) -> None:
    """The checks run on the user's workload alone, and a replay is given its path."""
    (row,) = ended.results["checks"]
    assert (ended.status, row["outcome"]) == (0, "PASSED")
    assert row["workload"] == f"{ended.folder.parent / NAME}:build"
    assert verify(ended.folder).problems == []
    (record,) = [record for record in ended.records if record["kind"] == "check"]
    assert row["workload"] in record["command"]


def test_name_of_a_file_is_no_markup(ended: Ended) -> None:
    """It is text on both pages, and the id of the test holds only harmless letters."""
    page = parse(ended.page)
    assert page.all("script") == []
    assert NAME in page.section("scenarios").text
    (entry,) = shown(ended.folder.parent / "x.html").values()
    assert {e.tag for e in extra(entry).walk()} == {"root", "p", "strong", "a"}
    assert entry["testId"].endswith("[_script_alert_1_mine_.build-cpu]")


def test_broken_user_workload_is_no_success(tmp_path: Path) -> None:
    """A factory that fails is told in the row, as text, and the session is not a success."""
    ended = run(tmp_path, "broken")
    (row,) = ended.results["checks"]
    assert ended.status == 1
    assert row["outcome"] != "PASSED"
    assert "<b>no weights</b>" in row["reason"]
    assert parse(ended.page).all("b") == []
