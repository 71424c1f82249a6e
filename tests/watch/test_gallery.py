"""Does watching say the right thing of scripts that all kinds of people could have written?

The first lines of a script tell what has to be said: ``# expect: healthy``, the name of a cause, or a status, and
``# or:`` another answer that is right too; ``# level: full`` asks for all observers. A cause may have a script
``..._fixed.py`` beside it, the same without the fault.
"""

from __future__ import annotations

import difflib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from harness.diagnose.diagnosis import diagnose, merged
from harness.diagnose.finding import Diagnosis, Status
from harness.diagnose.observations import Observations
from harness.watch.records import PROCESSES, notes, trained
from tests.running import LIMIT_S, ROOT, finished, process

GALLERY = Path(__file__).parent / "gallery"

SCRIPTS = {path.stem: path for path in sorted(GALLERY.glob("*.py"))}

CAUSES = {path.stem for path in (ROOT / "harness/diagnose/rules").glob("[!_]*.py")}

ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""The tests already use every core."""

FIX = 12
"""Lines in which a script and its fixed twin differ at most."""

KNOWN: dict[str, str] = {
    "cached_half_weights_wrapped": "formats are read from modules without children, and of weights whose module ran",
}
"""Right scripts of which the wrong thing is said, and why."""

BY_COMMAND = (
    "plain_loop",
    "dataloader_workers",
    "clip_before_unscale_trainer",
    "half_adam",
    "exits_zero",
)
"""Run through the real command line as well."""


@dataclass(frozen=True)
class Ended:
    """How a script ended, and what it printed."""

    code: int
    output: str
    complaints: str


class Warm:
    """A process that has torch, and forks one child for each script."""

    def __init__(self) -> None:
        self.process = process("-m", "tests.watch.warm", environment=ONE_THREAD, stdin=subprocess.PIPE)

    def run(self, script: Path, out: Path, level: str) -> Ended:
        """Run a script under observation, its records in ``out``; with the level ``alone``, without."""
        folder = out / PROCESSES
        folder.mkdir(parents=True)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{script}\t{folder}\t{level}\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        texts = [(out / name).read_text(encoding="utf-8") for name in ("output.txt", "complaints.txt")]
        return Ended(code, *texts)

    def close(self) -> None:
        """End it; nothing runs in it any more."""
        self.process.communicate(timeout=LIMIT_S)


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    started = Warm()
    yield started
    started.close()


@dataclass(frozen=True)
class Watched:
    """A script of the gallery, what it did under observation, and what was recorded of it."""

    script: Path
    ended: Ended
    out: Path


@pytest.fixture(scope="module")
def watched(request: pytest.FixtureRequest, warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    script, out = request.param, tmp_path_factory.mktemp("watched")
    return Watched(script, warm.run(script, out, told(script, "level") or "default"), out)


def told(script: Path, word: str) -> str:
    """Return what one of the first lines of a script says."""
    head = (line.partition(f"# {word}:") for line in script.read_text(encoding="utf-8").splitlines()[:4])
    return next((value.strip() for before, mark, value in head if mark and not before), "")


def said(diagnosis: Diagnosis) -> str:
    """Return the first cause, or the status where there is none."""
    return diagnosis.findings[0].cause if diagnosis.findings else diagnosis.status


def params(known: dict[str, str]) -> list[Any]:
    """Return every script, those that are known to be misjudged marked as such."""
    marks = {name: pytest.mark.xfail(strict=True, reason=reason) for name, reason in known.items()}
    return [pytest.param(path, id=name, marks=marks.get(name, ())) for name, path in SCRIPTS.items()]


@pytest.mark.parametrize("watched", params(KNOWN), indirect=True)
def test_what_is_said_of_a_script(watched: Watched) -> None:
    """The first cause is the right one; where evidence is missing for it, that is said."""
    runs = trained(watched.out)
    diagnosis = merged([diagnose(Observations(run)) for run in runs])
    expected, other = told(watched.script, "expect"), told(watched.script, "or")
    assert said(diagnosis) in {expected, other} - {""}, [run.summary for run in runs]
    if expected in CAUSES and not diagnosis.findings:
        assert expected in {entry.needed_for for entry in diagnosis.missing}


@pytest.mark.parametrize("watched", params({}), indirect=True)
def test_watching_changes_no_printed_number(watched: Watched, warm: Warm, tmp_path: Path) -> None:
    """A script prints under observation, to the last digit, what it prints alone; no observer gave up."""
    alone = warm.run(watched.script, tmp_path, "alone")
    assert (watched.ended.code, watched.ended.output) == (0, alone.output), watched.ended.complaints
    assert alone.output
    assert not notes(watched.out)
    assert not [run.summary["observer_notes"] for run in trained(watched.out) if run.summary["observer_notes"]]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_of_the_gallery_says_what_it_is(name: str) -> None:
    """Its first line names a cause or a status; a faulty one has a healthy twin that differs in the fix alone."""
    script = SCRIPTS[name]
    expected = told(script, "expect")
    assert expected in CAUSES | set(get_args(Status))
    if expected not in CAUSES:
        return
    twin = SCRIPTS[f"{name}_fixed"]
    assert told(twin, "expect") == "healthy"
    ours, theirs = (path.read_text("utf-8").partition("\n# mypy")[2].splitlines() for path in (script, twin))
    changed = [line for line in difflib.ndiff(ours, theirs) if line[0] in "+-" and line[2:].strip()]
    assert 0 < len(changed) <= FIX


def test_the_gallery_has_every_kind() -> None:
    """Most scripts are healthy, and every cause that one process can show has a script."""
    expected = [told(script, "expect") for script in SCRIPTS.values()]
    assert expected.count("healthy") > 2 * sum(cause in CAUSES for cause in expected)
    assert set(expected) >= CAUSES - {"uncontrolled_comparison"}


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_COMMAND)
def test_the_command_watches_a_script(name: str, tmp_path: Path) -> None:
    """Output and exit code are those of the script alone, and the diagnosis is the expected one."""
    script = str(SCRIPTS[name])
    alone = finished(script, environment=ONE_THREAD)
    words = ("-m", "harness.cli.main", "watch", "--out", str(tmp_path / "out"), "--", sys.executable, script)
    code, output, complaints = finished(*words, environment=ONE_THREAD)
    assert (code, output) == alone[:2]
    diagnosis = msgspec.json.decode((tmp_path / "out/diagnosis.json").read_bytes(), type=Diagnosis)
    assert said(diagnosis) == told(SCRIPTS[name], "expect")
    assert said(diagnosis) in complaints
