"""What the README shows works."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from harness.cli.main import COMMANDS
from harness.cli.main import main as gpu_exam
from harness.config import RunSpec, add_run_flags, spec_from_args
from harness.launch import run
from harness.observe.environment import PROJECT

README = (PROJECT / "README.md").read_text(encoding="utf-8")
SHOWN = [line.strip().partition("  #")[0] for line in README.splitlines() if line.startswith("    ")]


def example(name: str = "my_workload.py") -> str:
    """Return a file that the README shows: its first line names it."""
    [found] = [text for text in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if text.startswith(f'"""{name}')]
    return str(found)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_example_workload_trains(tmp_path: Path, precision: str) -> None:
    """The 30-line example is a complete workload, in every precision of a laptop."""
    path = tmp_path / "my_workload.py"
    path.write_text(example(), encoding="utf-8")
    spec = RunSpec(workload=f"{path}:make", precision=precision, max_steps=20, device="cpu")  # type: ignore[arg-type]
    result = run(spec, tmp_path / "run")
    assert result.state == "completed", result.message
    assert 0 < (result.value("val_metric") or -1.0) < 100


def test_the_example_is_short() -> None:
    """A factory takes at most thirty lines."""
    assert len(example().splitlines()) <= 30


@pytest.mark.parametrize("line", [line for line in SHOWN if line.startswith("gpu-exam ")])
def test_every_shown_command_exists(line: str) -> None:
    """Each gpu-exam command of the README is one of the commands."""
    assert shlex.split(line)[1] in COMMANDS


@pytest.mark.parametrize("line", [line for line in SHOWN if " train.py" in line and "--help" not in line])
def test_every_shown_train_flag_exists(line: str) -> None:
    """Each train.py line of the README parses."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_run_flags(parser)
    words = shlex.split(line.partition(">")[0])
    parser.parse_args(words[words.index("train.py") + 1 :])


def test_shown_runs_can_be_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two run folders of the comparison are those of the lines above it."""
    monkeypatch.chdir(tmp_path)
    [line] = [line for line in SHOWN if line.startswith("gpu-exam compare runs/")]
    words = shlex.split(line)[1:]
    for folder in words[1:]:
        [made] = [shlex.split(line) for line in SHOWN if line.endswith(f"--out {folder}")]
        flags = argparse.ArgumentParser()
        add_run_flags(flags)
        spec, options = spec_from_args(flags.parse_args([*made[2:], "--size", "tiny", "--max-steps", "10"]))
        assert run(spec, Path(options.out), options).state == "completed"
    assert gpu_exam(words) == 0


@pytest.mark.parametrize("target", ["exam", "test", "check", "install", "gpu-check"])
def test_every_make_target_exists(target: str) -> None:
    """The Makefile has the targets that are promised."""
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_the_example_training_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shown command names the cause and the line of the shown script; a gate knows what was judged harmless."""
    monkeypatch.chdir(tmp_path)
    text = example("my_train.py")
    Path("my_train.py").write_text(text, encoding="utf-8")
    shown = {line.split()[2]: shlex.split(line)[1:] for line in SHOWN if line.endswith("-- python my_train.py")}
    watch, gate = (with_this_python(shown[flag]) for flag in ("--out", "--known"))
    assert gpu_exam(watch) == 0
    [finding] = json.loads(Path("runs/watched/diagnosis.json").read_text(encoding="utf-8"))["findings"]
    clip = next(number for number, row in enumerate(text.splitlines(), 1) if "clip_grad_norm_" in row)
    assert finding["cause"] == "clip_before_unscale"
    assert f"my_train.py:{clip}" in finding["action"]
    Path("known.txt").write_text("", encoding="utf-8")
    assert gpu_exam(gate) == 1
    [known] = [shlex.split(line)[1] for line in SHOWN if line.endswith("> known.txt")]
    Path("known.txt").write_text(f"{known}\n", encoding="utf-8")
    assert gpu_exam(gate) == 0


def with_this_python(words: list[str]) -> list[str]:
    """Return a command that runs this Python in place of whatever is called so."""
    return [sys.executable if word == "python" else word for word in words]
