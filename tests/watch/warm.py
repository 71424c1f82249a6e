"""How does a script run under observation without importing torch again? In a forked child of a process that has it.

Reads lines ``script<TAB>folder of the records<TAB>level`` and runs each script in a child, which then is what Python
would have made of ``python script``: the script is ``__main__``, and its end is the interpreter's own end. Answers each
line with the child's exit code. What a child prints goes to ``output.txt`` beside the folder of its records.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import sklearn.datasets  # noqa: F401 - many scripts want it
import torch._dynamo  # noqa: F401 - the first optimizer imports it, and that takes as long as torch itself

from harness.watch.inside import start


def serve() -> tuple[str, str, str] | None:
    """Return in a child, with its own script, folder and level; None in this process, when no line is left."""
    for line in iter(sys.stdin.readline, ""):
        script, folder, level = line.rstrip("\n").split("\t")
        child = os.fork()
        if not child:
            return script, folder, level
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()
    return None


def become(script: str, folder: str, level: str) -> None:
    """Run a script as this process's own."""
    os.chdir(Path(folder).parent)
    output = os.open("output.txt", os.O_WRONLY | os.O_CREAT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, replacement in ((0, nothing), (1, output), (2, output)):
        os.dup2(replacement, number)
    sys.argv = [script]
    start(Path(folder), level)
    runpy.run_path(script, run_name="__main__")


own = serve()
if own is not None:
    become(*own)
