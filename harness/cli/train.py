"""``python train.py``: one run from the command line, alone, under torchrun, or over several ranks."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NoReturn

from harness.config import RunOptions, RunSpec, add_run_flags, changed, given_flags, spec_from_args
from harness.errors import HarnessError, UsageError
from harness.runs import Run

DESCRIPTION = "Train one workload and record everything."

EXIT_INTERRUPTED = 130
"""What a shell reports for a process that Ctrl-C ended."""


def main(words: list[str]) -> int:
    """Run what the words say; return the exit code. A user's mistake is one sentence on stderr."""
    parser = argparse.ArgumentParser(prog="train.py", description=DESCRIPTION, allow_abbrev=False)
    add_run_flags(parser)
    args = parser.parse_args(words)
    # A scheduler's SIGTERM ends a run as Ctrl-C does: the records say so.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        spec, options = spec_from_args(args)
        return start(spec, options, devices_given="devices" in given_flags(args))
    except HarnessError as error:
        return _refused(error)
    except KeyboardInterrupt:
        sys.stderr.write("train.py: interrupted; what was recorded so far is kept\n")
        return EXIT_INTERRUPTED


def start(spec: RunSpec, options: RunOptions, *, devices_given: bool) -> int:
    """Run in this process when it is a rank or the only one, otherwise launch the ranks."""
    from harness.engine.parallel import ranks_from_environment

    ranks = ranks_from_environment()
    if not ranks.launched and spec.devices > 1:
        return _launch(spec, options)
    if ranks.launched and devices_given and spec.devices != ranks.world_size:
        raise UsageError(f"--devices {spec.devices}: the launcher started {ranks.world_size} rank(s); leave it out")
    from harness.engine.run import execute

    spec = changed(spec, {"devices": ranks.world_size})
    run_rank = partial(execute, spec, options, out_folder(spec, options, _started(ranks.launched)), ranks)
    return run_rank() if ranks.world_size == 1 else _ended(run_rank)


def _ended(run_rank: Callable[[], int]) -> NoReturn:
    """Run one of several ranks and end the process with its exit code: a rank that exits normally can hang."""
    from harness.engine.ending import end_process

    code = 1
    try:
        code = run_rank()
    except HarnessError as error:
        code = _refused(error)
    except BaseException:  # the process boundary: whatever it was belongs into the rank's own output
        sys.excepthook(*sys.exc_info())
    end_process(code)


def _refused(error: HarnessError) -> int:
    sys.stderr.write(f"train.py: error: {error}\n")
    return error.exit_code


def _launch(spec: RunSpec, options: RunOptions) -> int:
    from harness.devices.select import check_count, resolve_kind
    from harness.engine.ending import EXIT_CODES
    from harness.launch import run

    check_count(resolve_kind(spec.device), spec.devices)
    result: Run = run(spec, out_folder(spec, options, time.time()), options, echo=True)
    if result.state != "completed":
        sys.stderr.write(f"train.py: {result.message}\n")
    return EXIT_CODES.get(result.state, 1)


def out_folder(spec: RunSpec, options: RunOptions, started: float) -> Path:
    """Return the folder of the records: as asked for, or by time, workload and precision."""
    if options.out:
        return Path(options.out)
    stamp = datetime.fromtimestamp(started, UTC).strftime("%Y%m%d-%H%M%S-%f")[:-3]
    workload = Path(spec.workload.rpartition(":")[0] or spec.workload).stem
    return Path("runs") / f"{stamp}-{workload}-{spec.precision}"


def _started(launched: bool) -> float:
    """Return a time that all ranks of one launch share: the start of their common parent, from proc(5), field 22."""
    if not launched:
        return time.time()
    try:
        fields = (
            Path(f"/proc/{os.getppid()}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
        booted_s = int(next(line.split()[1] for line in lines if line.startswith("btime ")))
    except (OSError, StopIteration):
        return time.time()
    return booted_s + int(fields[19]) / os.sysconf("SC_CLK_TCK")
