"""Is a wrong option one sentence that says what is accepted, before anything runs?"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from harness.devices.leases import usable_cores
from tests.plugin.conftest import MODES
from tests.plugin.folders import Exam

CODE = """
import json


def test_options(judge, request):
    options = request.config.pluginmanager.get_plugin("gpu-exam-session").options
    told = {"kinds": options.kinds, "devices": options.devices, "workload": options.workload} | options.overrides
    told["time_limit_s"] = options.run_options.time_limit_s
    pathlib.Path("options.json").write_text(json.dumps(told))
    judge(lambda: judgement("PASSED"), "")
"""

FILES = {
    "unknown.yaml": "speed: 3\n",
    "wrong.yaml": "max_steps: 0\n",
    "fault.yaml": "fault: fp16_no_loss_scaling\n",
    "list.yaml": "- 1\n",
    "broken.yaml": "a: [\n",
    "no_function.py": "",
}

BUILT_IN = "byte_lm, digits_cnn, digits_mlp"

Write = Callable[..., Exam]


@pytest.fixture
def folder(exam: Write) -> Exam:
    """A folder with the files that the options name."""
    written = exam(CODE)
    for name, text in FILES.items():
        (written.root / name).write_text(text)
    return written


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--devices", "0"], "--devices: got '0', expected int >= 1"),
        (["--devices", "two"], "--devices: got 'two', expected int"),
        (["--devices", "999"], f"--devices 999: there are {usable_cores()} core(s) usable for device kind cpu"),
        (["--device", "tpu"], "--device: got 'tpu', accepted are auto, cuda, cpu, emulated"),
        (["--device", "emulated"], "--device: got 'emulated', accepted are auto, cpu, cuda"),
        (["--device", "cuda"], "--device cuda: no GPU is visible here; gpu-exam doctor says why"),
        (["--seed", "x"], "--seed: got 'x', expected int"),
        (["--seed", "-1"], "--seed: got '-1', expected int >= 0"),
        (["--workload", "absent.py:build"], "--workload absent.py:build: no file {root}/absent.py"),
        (
            ["--workload", "no_function.py"],
            f"--workload: got 'no_function.py', accepted is PATH.py:FACTORY or one of {BUILT_IN}",
        ),
        (
            ["--workload", "no_function.py:"],
            f"--workload: got 'no_function.py:', accepted is PATH.py:FACTORY or one of {BUILT_IN}",
        ),
        (["--workload", "resnet"], f"--workload: got 'resnet', accepted is PATH.py:FACTORY or one of {BUILT_IN}"),
        (["--run-config", "absent.yaml"], "{root}/absent.yaml: cannot be read: No such file or directory"),
        (["--run-config", "unknown.yaml"], "{root}/unknown.yaml: unknown field 'speed' (did you mean 'seed'?); known"),
        (["--run-config", "wrong.yaml"], "{root}/wrong.yaml: max_steps: "),
        (["--run-config", "fault.yaml"], "--run-config fault.yaml: 'fault' is what the scenarios inject; leave it out"),
        (["--run-config", "list.yaml"], "{root}/list.yaml: expected fields of the run as 'name: value', got "),
        (["--run-config", "broken.yaml"], "{root}/broken.yaml: not a YAML file that is accepted: "),
    ],
)
def test_wrong_option(folder: Exam, words: list[str], sentence: str) -> None:
    """Exit status 4, one line, no traceback, nothing run and nothing written."""
    ended = folder.run(*words)
    assert ended.status == 4
    (line,) = ended.err.strip().splitlines()
    assert line.startswith("ERROR: " + sentence.format(root=folder.root))
    assert "Traceback" not in ended.out
    assert not ended.folder.exists()


@pytest.mark.parametrize("mode", ["serial", "parallel"])
def test_options_reach_the_checks(folder: Exam, mode: str) -> None:
    """Command line above file above default, in the session and in its workers; paths become absolute."""
    (folder.root / "run.yaml").write_text("seed: 1\nmax_steps: 7\ndevice: cpu\nworkload: digits_cnn\ntime_limit_s: 9\n")
    words = ["--run-config", "run.yaml", "--seed", "3", "--workload", "no_function.py:build"]
    assert folder.run(*words, *MODES[mode]).status == 0
    assert json.loads((folder.root / "options.json").read_text()) == {
        "kinds": ["cpu"],
        "devices": 1,
        "workload": f"{folder.root}/no_function.py:build",
        "seed": 3,
        "max_steps": 7,
        "time_limit_s": 9,
    }


def test_defaults(folder: Exam) -> None:
    """Without options nothing is set for every run, and the checks of both kinds are planned."""
    assert folder.run().status == 0
    told = json.loads((folder.root / "options.json").read_text())
    assert told == {"kinds": ["cpu", "cuda"], "devices": 1, "workload": "", "time_limit_s": 0}


@pytest.mark.parametrize("made", [False, True])
def test_absolute_folder_elsewhere(folder: Exam, made: bool) -> None:
    """The report may go outside the project, into a folder that exists or into a new one."""
    elsewhere = folder.root.parent / "elsewhere"
    if made:
        elsewhere.mkdir()
    ended = folder.run(out=str(elsewhere))
    assert ended.status == 0
    assert ended.out.splitlines()[-1] == f"report: {elsewhere}/report.html"
