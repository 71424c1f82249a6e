"""Which commands of an evidence log may run again, with which words, and how do they end?

The log may come from somebody else, so its commands are data: they run without a shell, only the
harness's own entry points run, and only built-in workloads do unless the caller trusts the author.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

from harness.config import add_run_flags
from harness.errors import EvidenceError, LaunchError, UsageError
from harness.observe.environment import PROJECT
from harness.processes import finish

TIME_LIMIT_S = 3600.0
"""Origin: the longest run of a built-in scenario takes minutes; an hour leaves room for a user's own workload."""

TAIL_BYTES = 400
"""Origin: the last line of a traceback and the line before it."""

RUNS_OTHER_PROGRAMS = {"watch", "replay"}
"""Subcommands that take a command themselves: through them a log could run anything."""


@dataclass(frozen=True)
class CommandEnd:
    """How a command ended."""

    status: int
    """Exit status; negative when a signal ended it."""
    tail: str
    """The end of what it printed."""


Runner = Callable[[list[str]], CommandEnd]
"""Runs shell words in the project folder; LaunchError when they cannot be run or do not end."""


def run_command(words: list[str]) -> CommandEnd:
    """Run ``words`` in the project folder and wait; at the end its whole process group is killed."""
    with tempfile.TemporaryFile() as output:
        ended = finish(words, TIME_LIMIT_S, cwd=PROJECT, output=output)
        if ended.timed_out:
            raise LaunchError(f"the command did not end within {TIME_LIMIT_S:g} s")
        return CommandEnd(ended.code, _tail(output))


def replay_words(command: list[str], out: Path, *, trust: bool) -> list[str]:
    """Return the words that repeat ``command`` with its records in ``out``; EvidenceError when it must not run."""
    match command:
        case ["python", "train.py", *flags]:
            _check_train_flags(flags, trust)
            return [sys.executable, "train.py", *flags, "--out", str(out)]
        case ["python", "-m", module, *rest] if re.fullmatch(r"harness(\.\w+)*", module):
            return [sys.executable, "-m", module, *_other_words(module.split("."), rest, out, trust)]
        case ["gpu-exam", *rest]:
            return [str(Path(sys.executable).with_name("gpu-exam")), *_other_words([], rest, out, trust)]
    shown = shlex.join(command)[:120]
    raise EvidenceError(
        f"replay does not run {shown!a}: it runs 'python train.py', 'python -m harness...' and 'gpu-exam' only"
    )


class _TrainFlags(argparse.ArgumentParser):
    """The flags of train.py, read without abbreviations and without leaving the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def _check_train_flags(flags: list[str], trust: bool) -> None:
    parser = _TrainFlags(add_help=False, allow_abbrev=False)
    add_run_flags(parser)
    try:
        given = parser.parse_args(flags)
    except UsageError as error:
        raise EvidenceError(f"replay does not run this train.py command: {str(error)[:200]!a}") from error
    files = [given.config, given.resume, None if (given.workload or "a").isidentifier() else given.workload]
    for file in files:
        if file and not trust:
            raise EvidenceError(
                f"the command loads {file!a}, which can run any code: pass --trust only if you trust the log's author"
            )


def _other_words(module: list[str], rest: list[str], out: Path, trust: bool) -> list[str]:
    """Return ``rest`` with its ``--out`` replaced, so that a replay overwrites nothing."""
    if inner := RUNS_OTHER_PROGRAMS & {*module, *rest}:
        raise EvidenceError(f"replay does not run '{inner.pop()}', because that runs another program in turn")
    if not trust:
        raise EvidenceError("the command is not a training run: pass --trust only if you trust the log's author")
    for place, word in enumerate(rest):
        if word == "--out" and place + 1 < len(rest):
            return [*rest[: place + 1], str(out), *rest[place + 2 :]]
        if word.startswith("--out="):
            return [*rest[:place], f"--out={out}", *rest[place + 1 :]]
    raise EvidenceError("the command has no --out, so there is no run folder to read its numbers from")


def _tail(output: IO[bytes]) -> str:
    """Return the end of ``output`` as one line."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - TAIL_BYTES))
    words = output.read().decode("utf-8", errors="replace").split()
    return "".join(letter for letter in " ".join(words) if letter.isprintable())
