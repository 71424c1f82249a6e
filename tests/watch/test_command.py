"""Is a watched command what it is alone: its output, its exit code, its modules, its signals?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.watch.command import SITE, environment
from harness.watch.records import PROCESSES, trained

ROOT = Path(__file__).parents[2]

TRAINING = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(12):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


PATIENT = """
print("ready", flush=True)
import time
try:
    time.sleep(60)
except KeyboardInterrupt:
    raise SystemExit(4)
"""


class Watched:
    """A script that was run under watch."""

    def __init__(self, folder: Path, script: str, *words: str, **more: Any) -> None:
        self.out, path = folder / "out", folder / "script.py"
        path.write_text(script, encoding="utf-8")
        self.done = subprocess.run(
            [*cli("--out", str(self.out)), "--", *(words or (sys.executable, str(path)))],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            **more,
        )

    @property
    def told(self) -> dict[str, Any]:
        """Return diagnosis.json."""
        found: dict[str, Any] = json.loads((self.out / "diagnosis.json").read_text(encoding="utf-8"))
        return found


def cli(*flags: str) -> list[str]:
    """Return the command line up to the ``--``."""
    code = "import sys; from harness.cli.main import main; sys.exit(main(sys.argv[1:]))"
    return [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}", "watch", *flags]


def test_a_healthy_training_keeps_its_output_and_code(tmp_path: Path) -> None:
    """The diagnosis goes to stderr and into the folder, nothing to stdout."""
    watched = Watched(tmp_path, TRAINING + "print('trained')\n")
    assert (watched.done.returncode, watched.done.stdout) == (0, "trained\n")
    assert watched.told["status"] == "healthy"
    assert "status: healthy" in watched.done.stderr
    (run,) = trained(watched.out)
    assert (run.state, run.value("attempted_steps")) == ("completed", 12)
    assert run.summary["step_site"] == "script.py:8"


@pytest.mark.parametrize(
    ("ending", "code"), [("raise SystemExit(7)", 7), ("raise ValueError('no')", 1), ("os._exit(5)", 5)]
)
def test_the_exit_code_is_the_commands_own(tmp_path: Path, ending: str, code: int) -> None:
    """However the script ends, what was seen until then is kept."""
    watched = Watched(tmp_path, "import os\n" + TRAINING + ending)
    assert watched.done.returncode == code
    assert trained(watched.out)[0].value("attempted_steps") in {1, 12}


def test_a_process_that_is_killed_leaves_what_was_kept(tmp_path: Path) -> None:
    """The shell's code for a signal, and the observations of the first step."""
    watched = Watched(tmp_path, TRAINING + "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert watched.done.returncode == 128 + signal.SIGKILL
    (run,) = trained(watched.out)
    assert (run.state, run.value("attempted_steps")) == ("died", 1)


def test_a_command_without_a_training_says_that_nothing_was_seen(tmp_path: Path) -> None:
    """Neither a shell command nor a script without torch leaves a record."""
    watched = Watched(tmp_path, "", "echo", "hello")
    assert (watched.done.returncode, watched.done.stdout) == (0, "hello\n")
    assert watched.told["status"] == "not_enough_evidence"
    assert "no backward pass of torch was seen in any process" in watched.done.stderr


def test_the_users_own_modules_stay_his(tmp_path: Path) -> None:
    """A package called harness, and a sitecustomize further down the path, are found as without us."""
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "__init__.py").write_text("NAME = 'mine'\n", encoding="utf-8")
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.customized = True\n", encoding="utf-8")
    script = (
        "import harness\n" + TRAINING + "import sys\nprint(harness.NAME, customized, 'harness.watch' in sys.modules)"
    )
    watched = Watched(tmp_path, script, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert watched.done.stdout == "mine True False\n"
    assert watched.told["status"] == "healthy"


def test_forked_children_are_processes_of_their_own(tmp_path: Path) -> None:
    """Each records its own steps; the parent took none."""
    body = "\n".join("    " + line for line in TRAINING.splitlines())
    script = (
        f"import torch, torch.multiprocessing as mp\ndef work(rank):{body}\n"
        "mp.start_processes(work, nprocs=2, start_method='fork')"
    )
    runs = trained(Watched(tmp_path, script).out)
    assert [run.value("attempted_steps") for run in runs] == [12, 12]
    assert [run.state for run in runs] == ["completed", "completed"]


COMPILED = """
import torch
from torch._dynamo.utils import counters
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
compiled = torch.compile(model, backend="eager", fullgraph=True)
clip = torch.compile(lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0), backend="eager", fullgraph=True)
for _ in range(12):
    compiled(torch.ones(2, 4)).sum().backward()
    clip()
    optimizer.step()
    optimizer.zero_grad()
model.eval()
print(counters["stats"]["unique_graphs"])
"""


def test_what_is_compiled_is_compiled_as_without_us(tmp_path: Path) -> None:
    """Neither hooks nor wrappers come into a graph, and none is compiled twice."""
    path = tmp_path / "alone.py"
    path.write_text(COMPILED, encoding="utf-8")
    alone = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True, timeout=60)
    watched = Watched(tmp_path, COMPILED)
    assert (watched.done.returncode, watched.done.stdout) == (0, alone.stdout)
    assert trained(watched.out)[0].value("attempted_steps") == 12


def test_ctrl_c_is_left_to_the_command(tmp_path: Path) -> None:
    """A script that handles it ends as it wants to, and is diagnosed afterwards."""
    script = TRAINING + PATIENT
    path = tmp_path / "script.py"
    path.write_text(script, encoding="utf-8")
    command = [*cli("--out", str(tmp_path / "out")), "--", sys.executable, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=30)
    assert process.returncode == 4
    assert b"status: healthy" in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--", "no-such-command-here"], "no-such-command-here: cannot be started: No such file or directory"),
        ([], "no command given; it comes after --"),
        (["python", "x.py"], "'python'"),
        (["--levl", "full", "--", "true"], "did you mean --level?"),
        (["--level", "most", "--", "true"], "accepted are default, full"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    """Exit code 2, and nothing is run."""
    monkeypatch.chdir(tmp_path)
    assert main(["watch", *words]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_a_folder_that_is_taken_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The records of another command are never mixed with new ones."""
    (tmp_path / PROCESSES).mkdir()
    assert main(["watch", "--out", str(tmp_path), "--", "true"]) == 2
    assert "already holds a watched command" in capsys.readouterr().err


def test_our_folder_comes_first_on_the_path() -> None:
    """A path that was there stays behind it."""
    assert environment({}, ["true"], Path("out"), "full")["PYTHONPATH"] == str(SITE)
    changed = environment({"PYTHONPATH": "a:b", "X": "1"}, ["true"], Path("out"), "full")
    assert changed["PYTHONPATH"] == f"{SITE}:a:b"
    assert (changed["X"], changed["GPU_EXAM_WATCH_LEVEL"]) == ("1", "full")


def test_a_twin_in_fp32_is_a_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two watched folders are diagnosed against each other as two runs are."""
    for name in ("half", "full"):
        (tmp_path / name).mkdir()
        Watched(tmp_path / name, TRAINING)
    folders = [str(tmp_path / name / "out") for name in ("half", "full")]
    assert main(["diagnose", folders[0], "--reference", folders[1]]) == 0
    assert capsys.readouterr().out.startswith("status: healthy")


CLIPPED = """
import torch
model = torch.nn.Linear(4, 1)
optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=1024.0)
for _ in range(12):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = model(torch.ones(2, 4)).sum()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize(
    ("known", "ending", "code"),
    [
        ("", "", 1),
        ("clip_before_unscale at script.py: a test\n", "", 0),
        ("clip_before_unscale at other.py: a test\n", "", 1),
        ("", "raise SystemExit(7)", 7),
    ],
)
def test_only_a_new_finding_fails(tmp_path: Path, known: str, ending: str, code: int) -> None:
    """With a file of known findings the exit code is the diagnosis's, where the command's own is 0."""
    file = tmp_path / "known.txt"
    file.write_text(known, encoding="utf-8")
    script = tmp_path / "script.py"
    script.write_text(CLIPPED + ending, encoding="utf-8")
    words = [*cli("--out", str(tmp_path / "out"), "--known", str(file)), "--", sys.executable, str(script)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code
    assert ("known but not found: clip_before_unscale at other.py" in done.stderr) == ("other" in known)
    (run,) = trained(tmp_path / "out")
    assert run.start["command"] == f"{sys.executable} {script}"


def test_a_folder_in_which_nothing_trained_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing to diagnose, and that is said."""
    (tmp_path / PROCESSES).mkdir()
    assert main(["diagnose", str(tmp_path)]) == 2
    assert "no process of the watched command trained" in capsys.readouterr().err
