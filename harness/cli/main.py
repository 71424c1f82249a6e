"""``gpu-exam``: which commands are there? Each lives in a file of its own and is imported when it is called."""

from __future__ import annotations

import errno
import importlib
import sys

from harness.cli.terminal import complain, piped, say
from harness.errors import HarnessError
from harness.registry import did_you_mean

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of a disk that takes no more."""

COMMANDS = {
    "compare": ("harness.cli.compare", "run", "vary one part of a run, everything else equal, and decide"),
    "diagnose": ("harness.cli.diagnose", "run", "name what is wrong with a run or in a training log"),
    "watch": ("harness.cli.watch", "run", "run your own training script, unchanged, and name what is wrong with it"),
    "doctor": ("harness.cli.doctor", "doctor", "is this machine fit to be measured on?"),
    "verify": ("harness.cli.evidence", "run_verify", "check an evidence folder, offline"),
    "replay": ("harness.cli.evidence", "run_replay", "run recorded commands again and compare the numbers"),
}


def main(words: list[str]) -> int:
    """Run one command; a user's mistake is one sentence, our own bug keeps its traceback."""
    if not words or words[0] in {"-h", "--help", "help"}:
        say(usage())
        return 0 if words else 2
    if words[0] not in COMMANDS:
        near = did_you_mean(words[0], COMMANDS)
        complain(f"gpu-exam: unknown command {words[0]!r}{near}; there are: {', '.join(COMMANDS)}")
        return 2
    module, function, _ = COMMANDS[words[0]]
    try:
        return int(getattr(importlib.import_module(module), function)(words[1:]))
    except HarnessError as error:
        complain(f"gpu-exam {words[0]}: error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        complain(f"gpu-exam {words[0]}: stopped by Ctrl-C")
        return 130
    except OSError as error:
        if error.errno not in FULL:
            raise
        complain(f"gpu-exam {words[0]}: error: {error.filename or 'a file'} cannot be written: {error.strerror}")
        return 1


def usage() -> str:
    """Return the list of commands."""
    lines = [f"  gpu-exam {name:<10} {text}" for name, (_, _, text) in COMMANDS.items()]
    return "\n".join(["usage: gpu-exam COMMAND ...; gpu-exam COMMAND --help says more", "", *lines])


def script() -> None:
    """Entry point of the installed command."""
    sys.exit(piped(main, sys.argv[1:]))


if __name__ == "__main__":
    script()
