"""``gpu-exam`` as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

LIMIT_S = 120


def start(*words: str, script: str = "-m harness.cli.main", **more: object) -> subprocess.Popen[str]:
    """Start a command; ``more`` goes to Popen."""
    command = [sys.executable, *script.split(), *words]
    environ = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
    return subprocess.Popen(command, cwd=ROOT, env=environ, text=True, **pipes)  # type: ignore[call-overload, no-any-return]


def without_reader(*words: str, script: str = "-m harness.cli.main") -> tuple[int, str]:
    """Run a command whose output nobody reads; return its exit code and its complaints."""
    reader, writer = os.pipe()
    os.close(reader)
    process = start(*words, script=script, stdout=writer)
    os.close(writer)
    _, errors = process.communicate(timeout=LIMIT_S)
    return process.returncode, errors
