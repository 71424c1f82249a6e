"""How does a script run under observation without importing torch again? In a forked child of a process that has it.

Reads lines ``script<TAB>folder of the records<TAB>level`` and runs each script in a child, which then is what Python
would have made of ``python script``: it is ``__main__``, and what is registered for the end of a process runs. With the
level ``alone`` nothing is observed. Answers each line with the child's exit code; what a child prints goes to
``output.txt`` and ``complaints.txt`` beside the folder of its records.
"""

from __future__ import annotations

import atexit
import gc
import os
import runpy
import sys
import threading
import traceback
from pathlib import Path

import sklearn.datasets  # noqa: F401 - many scripts want it
import torch._dynamo  # noqa: F401 - the first optimizer imports it, and that takes as long as torch itself

from harness.watch.inside import start


def serve() -> None:
    """Run a child for each line."""
    gc.freeze()
    for line in sys.stdin:
        script, folder, level = line.rstrip("\n").split("\t")
        child = os.fork()
        if not child:
            become(script, folder, level)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def become(script: str, folder: str, level: str) -> None:
    """Be the process of a script until its end.

    The interpreter's own end would free every object of torch one by one, which takes five times as long as a script.
    """
    out = Path(folder).parent
    opened = [os.open(out / name, os.O_WRONLY | os.O_CREAT) for name in ("output.txt", "complaints.txt")]
    for number, replacement in enumerate([os.open(os.devnull, os.O_RDONLY), *opened]):
        os.dup2(replacement, number)
    os.chdir(out)
    sys.argv = [script]
    if level != "alone":
        start(Path(folder), level)
    code = ended(script)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def ended(script: str) -> int:
    """Run a script to its end, and return the exit code that Python would have made of it."""
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as leaving:
        return int(leaving.code or 0)
    except BaseException as error:  # what nobody catches is told by the interpreter
        sys.last_value = error
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    serve()
