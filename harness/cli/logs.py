"""``gpu-exam diagnose FILE...``: what is wrong in the training logs of any program?"""

from __future__ import annotations

from pathlib import Path

import msgspec

from harness.cli.terminal import say
from harness.diagnose.diagnosis import merged
from harness.diagnose.finding import Diagnosis, Finding
from harness.errors import UsageError
from harness.logs.diagnosis import diagnose_log
from harness.logs.normal import Log
from harness.logs.read import read_log
from harness.logs.regression import regressions
from harness.observe.recorder import standard

MAX_FINDINGS = 3
MAX_MISSING = 4
"""What is told at most: one screen of words; --json holds everything."""


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


def diagnose_files(paths: list[str], reference: str | None, *, as_json: bool) -> Diagnosis:
    """Diagnose log files, each for itself, and print what was found; every finding says its file and line."""
    compared = read_log(_file(reference)) if reference else None
    logs = [read_log(Path(path)) for path in paths]
    diagnoses = [_naming(log, diagnose_log(log), several=len(logs) > 1) for log in logs]
    if compared:
        diagnoses += [regressions(log, compared) for log in logs]
    result = merged(diagnoses) if not compared else _beside(diagnoses, len(logs))
    say(_json(result) if as_json else "\n".join(_words(result, logs)))
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


def _words(result: Diagnosis, logs: list[Log]) -> list[str]:
    if result.status == "healthy":
        unknown = ", ".join(f"{missing.needed_for} (needs {missing.observation})" for missing in result.missing)
        return [
            f"status: healthy; checked: {', '.join(result.checked)}" + (f"; not checked: {unknown}" if unknown else "")
        ]
    lines = [f"status: {result.status.replace('_', ' ')}"]
    for finding in result.findings[:MAX_FINDINGS]:
        lines += _told(finding)
    if len(result.findings) > MAX_FINDINGS:
        lines.append(f"and {len(result.findings) - MAX_FINDINGS} more finding(s); --json lists all")
    if not result.findings:
        lines += [
            f"missing for {m.needed_for}: {m.observation}; to do: {m.command}" for m in result.missing[:MAX_MISSING]
        ]
    if result.checked:
        lines.append(f"checked: {', '.join(result.checked)}")
    return lines + [_unused(log) for log in logs if log.num_unused and not any(run.series for run in log.runs)]


def _unused(log: Log) -> str:
    shown = "; ".join(f"{number}: {text}" for number, text in log.unused)
    return f"{log.file}: {log.num_unused} of {log.num_lines} line(s) were of no use, such as {shown}"


def _told(finding: Finding) -> list[str]:
    numbers = [
        f"    {e.name} = {_value(e.value)} {e.unit}".rstrip() + f" ({e.threshold}; {e.source})"
        for e in finding.evidence
    ]
    return [
        f"{finding.category}: {finding.cause} (confidence {finding.confidence:.0%})",
        f"  {finding.summary}",
        *numbers,
        f"  to confirm: {finding.confirm}",
        f"  to do: {finding.action}",
    ]


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
