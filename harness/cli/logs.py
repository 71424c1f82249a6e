"""``gpu-exam diagnose FILE...``: what is wrong in the training logs of any program?"""

from __future__ import annotations

import textwrap
from pathlib import Path

import msgspec

from harness.cli.terminal import say
from harness.diagnose.diagnosis import merged
from harness.diagnose.finding import Diagnosis, Finding, Missing
from harness.errors import UsageError
from harness.logs.diagnosis import diagnose_log
from harness.logs.normal import Log
from harness.logs.read import read_log
from harness.logs.regression import regressions
from harness.observe.recorder import standard

SCREEN_LINES = 24
SCREEN_COLUMNS = 120
"""What is told at most, unless everything is asked for: one screen; --json holds everything."""

MAX_MISSING = 4

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


def diagnose_files(paths: list[str], reference: str | None, *, as_json: bool, verbose: bool = False) -> Diagnosis:
    """Diagnose log files, each for itself, and print what was found; every finding says its file and line.

    The words fill one screen at most; ``verbose`` tells all findings, all that is missing and the lines of no use.
    """
    compared = read_log(_file(reference)) if reference else None
    logs = [read_log(Path(path)) for path in paths]
    diagnoses = [_naming(log, diagnose_log(log), several=len(logs) > 1) for log in logs]
    if compared:
        diagnoses += [regressions(log, compared) for log in logs]
    result = merged(diagnoses) if not compared else _beside(diagnoses, len(logs))
    say(_json(result) if as_json else "\n".join(_words(result, logs, verbose=verbose)))
    return result


def _beside(diagnoses: list[Diagnosis], logs: int) -> Diagnosis:
    """Merge the comparison with the logs' own diagnoses: a log that is too short by itself may still be compared."""
    own, comparison = merged(diagnoses[:logs]), merged(diagnoses[logs:])
    result = merged([own, comparison])
    status = comparison.status if own.status == "not_enough_evidence" else result.status
    missing = own.missing + comparison.missing
    return Diagnosis(status=status, findings=result.findings, missing=missing, checked=own.checked + comparison.checked)


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


def _json(result: Diagnosis) -> str:
    return msgspec.json.format(msgspec.json.encode(standard(msgspec.to_builtins(result))), indent=2).decode()


def _words(result: Diagnosis, logs: list[Log], *, verbose: bool = False) -> list[str]:
    if result.status == "healthy" and not verbose:
        return [_healthy(result, logs)]
    lines = [f"status: {result.status.replace('_', ' ')}" + ("" if result.findings else _read(logs))]
    closing = _closing(result, logs, verbose=verbose)
    room = SCREEN_LINES - len(lines) - len(closing) - 1
    told = 0
    causes: set[str] = set()
    for finding in result.findings:
        block = _told_again(finding) if finding.cause in causes and not verbose else _told(finding)
        if told and not verbose and len(block) > room:
            break
        lines += block
        room -= len(block)
        told += 1
        causes.add(finding.cause)
    rest = result.findings[told:]
    if rest:
        others = ", ".join(sorted({finding.cause for finding in rest}))
        lines.append(f"and {len(rest)} more finding(s) of lower or equal confidence ({others}); --json lists all")
    return lines + closing


def _healthy(result: Diagnosis, logs: list[Log]) -> str:
    """Return one line: what was read, what was checked, and what could not be."""
    unknown = ", ".join(f"{missing.needed_for} (needs {missing.observation})" for missing in result.missing)
    return f"status: healthy; checked: {', '.join(result.checked)}{_read(logs)}" + (
        f"; not checked: {unknown}" if unknown else ""
    )


def _read(logs: list[Log]) -> str:
    """Say which columns were taken for the losses, where there is one file."""
    runs = logs[0].runs[:1] if len(logs) == 1 else []
    series = [run.get(name) for run in runs for name in ("loss", "val_loss") if name in run.series]
    counts = [str(len(one.points)) if len(one.points) < MANY else f"over {MANY}" for one in series]
    told = [f"{count} x {one.key}" for count, one in zip(counts, series, strict=True)]
    return f"; read: {', '.join(told)}" if told else ""


def _closing(result: Diagnosis, logs: list[Log], *, verbose: bool) -> list[str]:
    """Return what is told after the findings: what is missing where nothing was found, what was checked."""
    lines: list[str] = []
    if verbose or not result.findings:
        told = result.missing if verbose else result.missing[:MAX_MISSING]
        lines += [line for m in told for line in _wrapped(_missing(m), "")]
        left = len(result.missing) - len(told)
        lines += [f"and {left} more cause(s) that cannot be judged; --json lists all"] if left else []
    if result.checked:
        lines += _wrapped(f"checked: {', '.join(result.checked)}", "")
    useless = [log for log in logs if log.num_unused and (verbose or not any(run.series for run in log.runs))]
    lines += [line for log in useless[: None if verbose else 2] for line in _wrapped(_unused(log), "")]
    return lines if verbose else lines[: SCREEN_LINES - 1]


def _missing(missing: Missing) -> str:
    return f"missing for {missing.needed_for}: {missing.observation}; to do: {missing.command}"


def _unused(log: Log) -> str:
    shown = "; ".join(f"{number}: {text}" for number, text in log.unused)
    return f"{log.file}: {log.num_unused} of {log.num_lines} line(s) were of no use, such as {shown}"


def _told(finding: Finding) -> list[str]:
    numbers = [
        f"{e.name} = {_value(e.value)} {e.unit}".rstrip() + f" ({e.threshold}; {e.source})" for e in finding.evidence
    ]
    return [
        f"{finding.category}: {finding.cause} (confidence {finding.confidence:.0%})",
        *_wrapped(finding.summary, "  "),
        *[line for number in numbers for line in _wrapped(number, "    ")],
        *_wrapped(f"to confirm: {finding.confirm}", "  "),
        *_wrapped(f"to do: {finding.action}", "  "),
    ]


def _told_again(finding: Finding) -> list[str]:
    """Tell a cause that was told of another run or file: what was seen, without the advice."""
    return _wrapped(f"{finding.cause} too: {finding.summary} ({finding.evidence[0].source})", "")


def _wrapped(text: str, indent: str) -> list[str]:
    """Break a sentence at the width of a screen; a path is never broken."""
    return textwrap.wrap(
        text,
        SCREEN_COLUMNS,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
