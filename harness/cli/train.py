"""``python train.py``: one run from the command line, alone, under torchrun, or over several ranks."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from harness.cli.flags import Flags
from harness.cli.terminal import complain
from harness.config import RunOptions, RunSpec, add_run_flags, changed, given_flags, spec_from_args
from harness.errors import HarnessError, UsageError
from harness.runs import Run

DESCRIPTION = "Train one workload and record everything."

EXIT_INTERRUPTED = 130
"""What a shell reports for a process that Ctrl-C ended."""


def main(words: list[str]) -> int:
    """Run what the words say; return the exit code. A user's mistake is one sentence on stderr."""
    parser = Flags("train.py", DESCRIPTION)
    add_run_flags(parser)
    # A scheduler's SIGTERM ends a run as Ctrl-C does: the records say so.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        args = parser.read(words)
        spec, options = spec_from_args(args)
        return start(spec, options, devices_given="devices" in given_flags(args))
    except HarnessError as error:
        return _refused(error)
    except KeyboardInterrupt:
        return _interrupted()


def start(spec: RunSpec, options: RunOptions, *, devices_given: bool) -> int:
    """Run in this process when it is a rank or the only one, otherwise launch the ranks."""
    from harness.engine.parallel import ranks_from_environment

    ranks = ranks_from_environment()
    folder = out_folder(spec, options, _started(ranks.launched))
    if not ranks.launched and spec.devices > 1:
        return _stoppable(partial(_launch, spec, options, folder), folder)
    if ranks.launched and devices_given and spec.devices != ranks.world_size:
        raise UsageError(f"--devices {spec.devices}: the launcher started {ranks.world_size} rank(s); leave it out")
    from harness.engine.ending import run_to_end
    from harness.engine.run import execute

    run_rank = partial(execute, changed(spec, {"devices": ranks.world_size}), options, folder, ranks)
    if ranks.world_size > 1:
        run_to_end(partial(_told, run_rank))  # one of several ranks can hang when it exits normally
    return _stoppable(run_rank, folder)


def _launch(spec: RunSpec, options: RunOptions, folder: Path) -> int:
    from harness.devices.kinds import check_cores
    from harness.devices.select import check_count, resolve_kind
    from harness.engine.ending import EXIT_CODES
    from harness.launch import run

    kind = resolve_kind(spec.device)
    check_count(kind, spec.devices)
    check_cores(kind, spec.devices)
    result: Run = run(spec, folder, options, echo=True)
    if result.state != "completed":
        complain(f"train.py: {result.message}")
    return EXIT_CODES.get(result.state, 1)


def _told(run: Callable[[], int]) -> int:
    try:
        return run()
    except HarnessError as error:
        return _refused(error)


def _refused(error: HarnessError) -> int:
    complain(f"train.py: error: {error}")
    return error.exit_code


def _stoppable(run: Callable[[], int], folder: Path) -> int:
    """Run; when Ctrl-C comes first, leave no folder without a record in it."""
    existed = folder.exists()
    try:
        return run()
    except KeyboardInterrupt:
        files = list(folder.glob("rank*.jsonl"))
        if any(file.stat().st_size for file in files):
            return _interrupted(folder)
        for file in files:
            file.unlink()
        if not existed:
            shutil.rmtree(folder, ignore_errors=True)
        return _interrupted()


def _interrupted(folder: Path | None = None) -> int:
    complain(f"train.py: interrupted; {f'its records are in {folder}' if folder else 'nothing was recorded'}")
    return EXIT_INTERRUPTED


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
