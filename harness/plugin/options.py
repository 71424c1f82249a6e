"""What can a session of scenarios be asked for?"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.config import RunOptions, RunSpec, add_run_flags, given_flags, spec_from_args
from harness.devices.leases import usable_cores
from harness.errors import UsageError
from harness.observe.evidence import FILE_NAME
from harness.observe.nvml import visible_gpus
from harness.registry import Registry

DEVICE_KINDS = ("auto", "cpu", "cuda")

LOOKS = ("collectonly", "showfixtures", "show_fixtures_per_test", "setuponly", "setupplan", "cacheshow")
"""Options of pytest with which no test is executed."""

LOG_INTERVAL = 5
"""Steps between logged losses: the runs of a scenario have 60 to 200 steps, and a curve needs points."""


def add_options(parser: pytest.Parser) -> None:
    """Register the options."""
    group = parser.getgroup("gpu-exam", "gpu-exam: scenarios of accelerated training")
    group.addoption("--device", default="", help="auto, cpu or cuda: where the scenarios run (default: auto)")
    group.addoption("--devices", default="", metavar="N", help="ranks of each run, one device each (default: 1)")
    group.addoption(
        "--workload", default="", metavar="PATH.py:FACTORY", help="run the scenarios on your own model and data"
    )
    group.addoption("--run-config", default="", metavar="FILE.yaml", help="fields of the run spec for every run")
    group.addoption("--seed", default="", metavar="N", help="seed of every run (default: 42)")
    group.addoption(
        "--exam-out", default="", metavar="DIR", help="folder of report and evidence (default: reports/<time>)"
    )
    group.addoption("--allow-no-gpu", action="store_true", help="zero executed GPU checks are no failure")


@dataclass(frozen=True)
class Options:
    """The options of one session, checked."""

    out: Path
    kinds: tuple[str, ...]
    """Device kinds whose checks are planned; those of a kind that is not here are skipped, and say so."""
    gpus: int
    allow_no_gpu: bool
    only_looks: bool = False
    """Whether the session executes no test at all, as with ``--collect-only``: no gate, no folder, no report."""
    devices: int = 1
    workload: str = ""
    overrides: dict[str, Any] = field(default_factory=dict)
    """Fields of the run spec that are set for every run."""
    run_options: RunOptions = field(default_factory=RunOptions)

    @classmethod
    def read(cls, config: pytest.Config) -> Options:
        """Check every option before anything runs; a wrong one is a UsageError."""
        gpus = len(visible_gpus(os.environ))
        spec, run_options, given = _asked(config)
        _check_count(spec.devices, "cuda" if gpus and spec.device != "cpu" else "cpu", gpus)
        return cls(
            out=_out(config),
            kinds=_kinds(spec.device, gpus),
            gpus=gpus,
            allow_no_gpu=bool(config.getoption("allow_no_gpu")),
            only_looks=any(config.getoption(name, False) for name in LOOKS),
            devices=spec.devices,
            workload=_workload(spec.workload, config.invocation_params.dir) if "workload" in given else "",
            overrides={name: getattr(spec, name) for name in given - {"workload", "device"}},
            run_options=run_options,
        )

    @property
    def why_no_gpu(self) -> str:
        """Why checks that need a GPU are skipped; empty when they are not."""
        if "cuda" not in self.kinds:
            return f"needs a GPU, and this session has --device {self.kinds[0]}"
        return "" if self.gpus else "no GPU is visible here; gpu-exam doctor says why"

    def make_out(self) -> None:
        """Make the folder of the session; UsageError when it cannot be made."""
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--exam-out {self.out}: cannot be made: {error.strerror}") from error


def _asked(config: pytest.Config) -> tuple[RunSpec, RunOptions, set[str]]:
    """Return the run that the options and the configuration file describe, and the fields that they set."""
    parser = argparse.ArgumentParser()
    add_run_flags(parser)
    args = parser.parse_args([])
    for name in ("device", "devices", "seed", "workload"):
        setattr(args, name, config.getoption(name) or None)
    file = config.getoption("run_config")
    args.config = str(Path(config.invocation_params.dir, file)) if file else None
    spec, options = spec_from_args(args)
    if "log_interval" not in given_flags(args):
        options = msgspec.structs.replace(options, log_interval=LOG_INTERVAL)
    given = given_flags(args) & set(RunSpec.__struct_fields__)
    if "fault" in given:
        raise UsageError(f"--run-config {file}: 'fault' is what the scenarios inject; leave it out")
    return spec, options, given


def _check_count(devices: int, kind: str, gpus: int) -> None:
    there, what = (gpus, "GPU(s) visible") if kind == "cuda" else (usable_cores(), "core(s) usable")
    if devices > there:
        raise UsageError(f"--devices {devices}: there are {there} {what} for device kind {kind}")


def _kinds(device: str, gpus: int) -> tuple[str, ...]:
    if device not in DEVICE_KINDS:
        raise UsageError(f"--device: got {device!r}, accepted are {', '.join(DEVICE_KINDS)}")
    if device == "cuda" and not gpus:
        raise UsageError("--device cuda: no GPU is visible here; gpu-exam doctor says why")
    return ("cpu", "cuda") if device == "auto" else (device,)


def _out(config: pytest.Config) -> Path:
    if hasattr(config, "workerinput"):
        return Path(config.workerinput["gpu_exam_out"])
    given = str(config.getoption("exam_out"))
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder = Path(config.invocation_params.dir, given or f"reports/{stamp}-{os.getpid()}").resolve()
    if (folder / FILE_NAME).exists():
        raise UsageError(f"--exam-out {folder}: it already holds the evidence of a session; name another folder")
    return folder


def _workload(given: str, folder: Path) -> str:
    """Return a built-in name, or the user's workload with an absolute path: runs start in other directories."""
    path, _, factory = given.rpartition(":")
    built_in = Registry[object]("workload", "harness.workloads", "build").names()
    if given in built_in:
        return given
    if not path.endswith(".py") or not factory.isidentifier():
        raise UsageError(f"--workload: got {given!r}, accepted is PATH.py:FACTORY or one of {', '.join(built_in)}")
    absolute = Path(folder, path).expanduser().resolve()
    if not absolute.is_file():
        raise UsageError(f"--workload {given}: no file {absolute}")
    return f"{absolute}:{factory}"
