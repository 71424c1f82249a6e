"""``gpu-exam diagnose smi.csv nccl.log``: what is wrong with the GPUs, or with their communication?"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from msgspec.structs import replace

from harness.cli.terminal import say
from harness.cli.words import as_json, as_words, no_longer_found
from harness.diagnose.diagnosis import SERIOUS, TOLD_APART
from harness.diagnose.finding import Diagnosis
from harness.diagnose.known import Known, parted
from harness.errors import UsageError
from harness.logs.diagnosis import diagnose_log
from harness.logs.read import read_log
from harness.telemetry.diagnosis import diagnose_telemetry, naming
from harness.telemetry.load import busy_share
from harness.telemetry.nccl import diagnose_nccl, transports
from harness.telemetry.nccl_log import NcclLog, read_nccl
from harness.telemetry.normal import Telemetry
from harness.telemetry.read import MAX_SAMPLES, NCCL, kind_of, read_telemetry
from harness.telemetry.text import lines_of


def telemetry_among(paths: list[str]) -> dict[str, str]:
    """Return the kind of each file, empty for a training log; nothing where none is telemetry or lines of NCCL."""
    kinds = {path: kind_of(Path(path)) for path in paths if Path(path).is_file()}
    return kinds if any(kinds.values()) else {}


def require_files(paths: list[str], reference: str | None) -> None:
    """Refuse what does not go with telemetry: folders, files that are not there, a reference."""
    if reference:
        raise UsageError(f"--reference {reference}: compares runs or training logs, not the telemetry that was given")
    absent = [path for path in paths if not Path(path).is_file()]
    if absent:
        what = "a folder" if Path(absent[0]).is_dir() else "no such file"
        raise UsageError(f"{absent[0]}: {what}; telemetry and log files are accepted together")


def diagnose_telemetry_files(
    kinds: dict[str, str], known: Collection[Known], *, json: bool, verbose: bool = False
) -> Diagnosis:
    """Diagnose telemetry, and the training logs beside it, and print what was found; ``kinds`` by file."""
    telemetry = [read_telemetry(Path(path), kind) for path, kind in kinds.items() if kind not in {"", NCCL}]
    nccl = [path for path, kind in kinds.items() if kind == NCCL]
    log = read_nccl((path, lines_of(Path(path))) for path in nccl) if nccl else None
    found = {one.file: diagnose_telemetry(one) for one in telemetry}
    found |= {path: diagnose_log(read_log(Path(path))) for path, kind in kinds.items() if not kind}
    found |= {" and ".join(nccl): diagnose_nccl(log)} if log else {}
    result = _together(found, known)
    read = "; ".join([*map(_read, telemetry), *([_heard(log)] if log else [])])
    words = [*as_words(result, verbose=verbose, read=read), *no_longer_found(known, result)]
    say(as_json(result) if json else "\n".join(words))
    return result


def _together(found: dict[str, Diagnosis], known: Collection[Known]) -> Diagnosis:
    """Return one diagnosis of files that each tell something else: what one of them checked is checked."""
    every = [naming(one, file) if len(found) > 1 else one for file, one in found.items()]
    findings = sorted((finding for one in every for finding in one.findings), key=lambda finding: -finding.confidence)
    left, old = parted(findings, known)
    status = min((one.status for one in every), key=SERIOUS.index)
    if findings:
        states = [one.status for one in every if not one.findings] or ["healthy"]
        status = min(states, key=SERIOUS.index)
    if left:
        status = "diagnosed" if left[0].confidence >= TOLD_APART else "inconclusive"
    checked = list(dict.fromkeys(name for one in every for name in one.checked))
    missing = [need for one in every for need in one.missing if need.needed_for not in checked]
    return replace(every[0], status=status, findings=left, missing=missing, checked=checked, known=old)


def _read(telemetry: Telemetry) -> str:
    """Say what was read of a file."""
    gpus = telemetry.gpus()
    if not gpus:
        return f"read: {telemetry.kind}, {len(telemetry.processes)} process(es)"
    shares = [share for gpu in gpus if (share := busy_share(gpu)) is not None]
    busy = f", busy {min(shares):.0f} to {max(shares):.0f} % of the time" if shares else ""
    damaged = f", {telemetry.unread_lines} damaged line(s)" if telemetry.unread_lines else ""
    first = "the first " if len(telemetry.samples) >= MAX_SAMPLES else ""
    return f"read: {telemetry.kind}, {first}{len(telemetry.samples)} sample(s) of {len(gpus)} GPU(s){busy}{damaged}"


def _heard(log: NcclLog) -> str:
    return f"read: {log.lines} line(s) of NCCL, {transports(log)}"
