"""``gpu-exam diagnose FILE...``: what is wrong in the training logs of any program?"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from harness.cli.terminal import say
from harness.cli.words import as_json, as_words, no_longer_found
from harness.diagnose.diagnosis import merged
from harness.diagnose.finding import Diagnosis
from harness.diagnose.known import Known
from harness.errors import UsageError
from harness.logs.diagnosis import diagnose_log
from harness.logs.normal import Log
from harness.logs.read import read_log
from harness.logs.regression import regressions

MAX_USELESS = 2
"""Files of which it is told that nothing in them could be used."""

MANY = 10_000
"""Points from which a column may have been thinned, so that they are not counted."""


def are_files(paths: list[str]) -> bool:
    """Whether log files are given, as they are wherever there is a file; UsageError when folders are among them."""
    files = [path for path in paths if Path(path).is_file()]
    folders = [path for path in paths if Path(path).is_dir()]
    if files and folders:
        raise UsageError(f"{folders[0]}: a folder beside the file {files[0]}; one run folder or log files are accepted")
    if len(folders) > 1:
        raise UsageError(f"{folders[1]}: a second folder; one run folder or any number of log files is accepted")
    absent = [path for path in paths if path not in files and path not in folders]
    if absent and (files or len(paths) > 1):
        raise UsageError(f"{absent[0]}: no such file; one run folder or log files are accepted")
    return bool(files)


def diagnose_files(
    paths: list[str], reference: str | None, known: Collection[Known] = (), *, json: bool, verbose: bool = False
) -> Diagnosis:
    """Diagnose log files, each for itself, and print what was found; every finding says its file and line."""
    compared = read_log(_file(reference)) if reference else None
    logs = [read_log(Path(path)) for path in paths]
    diagnoses = [_naming(log, diagnose_log(log, known), several=len(logs) > 1) for log in logs]
    if compared:
        diagnoses += [regressions(log, compared, known) for log in logs]
    result = merged(diagnoses) if not compared else _beside(diagnoses, len(logs))
    words = [*as_words(result, verbose=verbose, read=_read(logs)), *_useless(logs, verbose=verbose)]
    say(as_json(result) if json else "\n".join([*words, *no_longer_found(known, result)]))
    return result


def _beside(diagnoses: list[Diagnosis], logs: int) -> Diagnosis:
    """Merge the comparison with the logs' own diagnoses: a log that is too short by itself may still be compared."""
    own, comparison = merged(diagnoses[:logs]), merged(diagnoses[logs:])
    result = merged([own, comparison])
    status = comparison.status if own.status == "not_enough_evidence" else result.status
    missing, checked = own.missing + comparison.missing, own.checked + comparison.checked
    return msgspec.structs.replace(result, status=status, missing=missing, checked=checked)


def _naming(log: Log, diagnosis: Diagnosis, *, several: bool) -> Diagnosis:
    """Say of which file something is missing, where there are several."""
    if not several:
        return diagnosis
    missing = [msgspec.structs.replace(m, observation=f"{log.file}: {m.observation}") for m in diagnosis.missing]
    return msgspec.structs.replace(diagnosis, missing=missing)


def _file(path: str) -> Path:
    if not Path(path).is_file():
        raise UsageError(f"--reference {path}: no such file; a log file is accepted beside log files")
    return Path(path)


def _read(logs: list[Log]) -> str:
    """Say which columns were taken for the losses, where there is one file."""
    runs = logs[0].runs[:1] if len(logs) == 1 else []
    series = [run.get(name) for run in runs for name in ("loss", "val_loss") if name in run.series]
    counts = [str(len(one.points)) if len(one.points) < MANY else f"over {MANY}" for one in series]
    told = [f"{count} x {one.key}" for count, one in zip(counts, series, strict=True)]
    return f"read: {', '.join(told)}" if told else ""


def _useless(logs: list[Log], *, verbose: bool) -> list[str]:
    """Return what could not be used, of files that gave no number at all, or of all."""
    useless = [log for log in logs if log.num_unused and (verbose or not any(run.series for run in log.runs))]
    return [_unused(log) for log in useless[: None if verbose else MAX_USELESS]]


def _unused(log: Log) -> str:
    shown = "; ".join(f"{number}: {text}" for number, text in log.unused)
    return f"{log.file}: {log.num_unused} of {log.num_lines} line(s) were of no use, such as {shown}"
