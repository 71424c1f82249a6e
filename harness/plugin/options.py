"""What can a session of scenarios be asked for?"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.config import RunSpec, add_run_flags, changed, given_flags, spec_from_args
from harness.devices.leases import usable_cores
from harness.errors import UsageError
from harness.observe.nvml import visible_gpus

DEVICE_KINDS = ("auto", "cpu", "cuda")


def add_options(parser: pytest.Parser) -> None:
    """Register the options."""
    group = parser.getgroup("gpu-exam", "gpu-exam: scenarios of accelerated training")
    group.addoption("--device", default="auto", help="auto, cpu or cuda: where the scenarios run (default: auto)")
    group.addoption("--devices", default="1", metavar="N", help="ranks of each run, one device each (default: 1)")
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
    workload: str = ""
    overrides: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, config: pytest.Config) -> Options:
        """Check every option before anything runs; a wrong one is a UsageError."""
        gpus = len(visible_gpus(os.environ))
        device = str(config.getoption("device"))
        return cls(
            out=_out(config),
            kinds=_kinds(device, gpus),
            gpus=gpus,
            allow_no_gpu=bool(config.getoption("allow_no_gpu")),
            workload=_workload(config),
            overrides=_overrides(config, "cuda" if gpus and device != "cpu" else "cpu", gpus),
        )


def _kinds(device: str, gpus: int) -> tuple[str, ...]:
    if device not in DEVICE_KINDS:
        raise UsageError(f"--device: got {device!r}, accepted are {', '.join(DEVICE_KINDS)}")
    if device == "cuda" and not gpus:
        raise UsageError("--device cuda: no GPU is visible here; gpu-exam doctor says why")
    return ("cpu", "cuda") if device == "auto" else (device,)


def _out(config: pytest.Config) -> Path:
    given = str(config.getoption("exam_out"))
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder = Path(config.invocation_params.dir, given or f"reports/{stamp}-{os.getpid()}").resolve()
    if hasattr(config, "workerinput"):
        return Path(config.workerinput["gpu_exam_out"])
    if (folder / "evidence.jsonl").exists():
        raise UsageError(f"--exam-out {folder}: it already holds the evidence of a session; name another folder")
    return folder


def _workload(config: pytest.Config) -> str:
    """Return the user's workload with an absolute path: runs start in other directories."""
    given = str(config.getoption("workload"))
    path, colon, factory = given.rpartition(":")
    if not given or not colon:
        return given
    absolute = Path(config.invocation_params.dir, path).resolve()
    if not absolute.is_file():
        raise UsageError(f"--workload {given}: no file {absolute}")
    return f"{absolute}:{factory}"


def _overrides(config: pytest.Config, kind: str, gpus: int) -> dict[str, Any]:
    """Return what every run of the session has set, as checked fields of the run spec."""
    values: dict[str, Any] = {}
    if config.getoption("run_config"):
        parser = argparse.ArgumentParser()
        add_run_flags(parser)
        args = parser.parse_args(["--config", str(Path(config.invocation_params.dir, config.getoption("run_config")))])
        spec, _ = spec_from_args(args)
        values = {name: getattr(spec, name) for name in given_flags(args) if name in RunSpec.__struct_fields__}
    if config.getoption("seed"):
        values["seed"] = config.getoption("seed")
    values["devices"] = config.getoption("devices")
    checked = changed(RunSpec(), values, "command line")
    there, what = (gpus, "GPU(s) visible") if kind == "cuda" else (usable_cores(), "core(s) usable")
    if checked.devices > there:
        raise UsageError(f"--devices {checked.devices}: there are {there} {what} for device kind {kind}")
    return {name: getattr(checked, name) for name in values}
