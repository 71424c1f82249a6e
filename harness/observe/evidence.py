"""What was done, what was seen, and can it be trusted? The append-only evidence log and its check.

``evidence.jsonl`` holds one JSON record a line. Each record carries the hash of the one before it,
so an edit, a removal, an insertion or a reordering breaks the chain at that line; the terminal
record shows that nothing was cut off the end. Whoever can write the whole file can also write a
whole new chain: against that, keep the head that ``close`` returns in another place.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Self

import msgspec

from harness.errors import EvidenceError
from harness.observe.canonical import digest, plain
from harness.observe.chain import Artifact, Chain, Record, Terminal, Tolerance, walk
from harness.observe.clock import utc_now
from harness.observe.environment import fingerprint_id
from harness.observe.outcome import Outcome

FILE_NAME = "evidence.jsonl"

MAX_PROBLEMS = 50
"""Origin: more than a screenful helps nobody, and a file of garbage must not fill the memory."""

NO_FILE_NAME = (ValueError, RuntimeError)
"""What pathlib raises for a NUL byte or a lone surrogate in a name, and for a loop of links."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller knows about one check; the log adds place, time and hashes."""

    command: list[str]
    """Shell words that another engineer can run."""
    environment: str
    """What ``EvidenceLog.environment`` returned."""
    expected: Any
    observed: Any
    verdict: Outcome
    subject: str = ""
    """What was checked: a test id."""
    tolerance: Tolerance | None = None
    """None accepts the very same number only."""
    values: dict[str, float] = {}
    """The numbers that a replay compares, by their name in the summary of the run."""
    artifacts: list[Path] = []
    """Files inside the evidence folder, absolute or relative to it."""


@dataclass(frozen=True)
class VerifyReport:
    """What the check of a log found; ``ok`` when there are no problems."""

    ok: bool
    records: int
    """Readable records, without the terminal one."""
    head: str
    """Hash of the last record, the terminal one included."""
    problems: list[str]
    terminal: Terminal | None = None


class EvidenceLog:
    """The one writer of a log. Use ``open`` in a ``with``; without ``close`` there is no terminal record."""

    def __init__(self, folder: Path, descriptor: int) -> None:
        self.folder = folder
        self._descriptor: int | None = descriptor
        self._chain = Chain()

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Start a log in ``folder``, or go on with one that was not closed.

        EvidenceError when another process writes it, when it was closed, or when its chain is broken.
        """
        path = folder / FILE_NAME
        with ExitStack() as undo:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                # O_NONBLOCK: a pipe under this name is refused below instead of being waited for.
                descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o644)
                undo.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise EvidenceError(
                    f"{path}: another process is writing it; give each session its own folder"
                ) from error
            except OSError as error:
                raise EvidenceError(f"{path}: cannot be written: {error.strerror}") from error
            log = cls(folder, descriptor)
            log._follow(path)
            undo.pop_all()
        return log

    @property
    def num_records(self) -> int:
        """Records so far, without the terminal one."""
        return self._chain.num_records

    def environment(self, fingerprint: dict[str, Any]) -> str:
        """Write the fingerprint unless the log has it already; return the id that entries carry."""
        name = fingerprint_id(fingerprint)
        if name not in self._chain.environments:
            self._write("environment", name, {"observed": plain(fingerprint)})
        return name

    def append(self, entry: Entry) -> int:
        """Write one check and return its ``seq``; EvidenceError when an artefact is absent or outside the folder."""
        fields = plain(entry) | {"artifacts": [self._artifact(path) for path in entry.artifacts]}
        return self._write("check", fields.pop("environment"), fields)

    def close(self, planned: int, executed: int) -> str:
        """Write the terminal record, release the log and return the head: the hash that covers everything."""
        end = Terminal(records=self.num_records, head=str(self._chain.head), planned=planned, executed=executed)
        fields = {"expected": {"executed": planned}, "observed": plain(end)}
        self._write("terminal", next(reversed(self._chain.environments), ""), fields)
        self._release()
        return str(self._chain.head)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def _follow(self, path: Path) -> None:
        for number, _, problems in walk(path, self._chain):
            if problems:
                raise EvidenceError(f"{path}: cannot be continued: line {number}: {problems[0]}")
        if self._chain.terminal:
            raise EvidenceError(f"{path}: holds a session that has ended; give the new session its own folder")

    def _write(self, kind: str, environment: str, fields: dict[str, Any]) -> int:
        body = {
            "seq": self._chain.seq + 1,
            "time": utc_now(),
            "command": ["python", *sys.orig_argv[1:]],
            "environment": environment,
            "expected": None,
            "observed": None,
            "verdict": "RECORDED",
            "artifacts": [],
            "kind": kind,
            **fields,
            "prev": self._chain.head,
        }
        line = json.dumps(body | {"hash": digest(body)}, allow_nan=False).encode("ascii") + b"\n"
        record = self._examined(line)
        self._put(line)
        self._chain.advance(record)
        return record.seq

    def _examined(self, line: bytes) -> Record:
        """Return the record in ``line`` if it passes the reader's own check: what is in the file can be verified."""
        where = self.folder / FILE_NAME
        try:
            record, problems = self._chain.examine(line)
        except EvidenceError as error:
            raise EvidenceError(f"{where}: cannot write this: {error}") from error
        if problems:
            raise EvidenceError(f"{where}: cannot write record {record.seq}: {'; '.join(problems)}")
        return record

    def _put(self, line: bytes) -> None:
        if self._descriptor is None:
            raise EvidenceError(f"{self.folder / FILE_NAME}: the log is closed")
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError as error:
            self._release()  # part of the line may be there: nothing may follow it
            raise EvidenceError(f"{self.folder / FILE_NAME}: cannot be written: {error.strerror}") from error

    def _artifact(self, path: Path) -> dict[str, str]:
        try:
            real, folder = (self.folder / path).resolve(), self.folder.resolve()
            if real.is_relative_to(folder) and real.is_file():
                return {"path": real.relative_to(folder).as_posix(), "sha256": _file_digest(real)}
        except (OSError, *NO_FILE_NAME) as error:
            raise EvidenceError(f"artefact {str(path)!r}: cannot be read: {error}") from error
        raise EvidenceError(f"artefact {str(path)!r}: expected a file inside {self.folder}")

    def _release(self) -> None:
        if self._descriptor is not None:
            # A forked child holds a copy of the descriptor, and with it the lock, until this unlocks all copies.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = None


def read_records(folder: Path) -> Iterator[Record]:
    """Yield the records in order, one in memory at a time; EvidenceError at the first that does not fit the chain."""
    path = folder / FILE_NAME
    for number, record, problems in walk(path, Chain()):
        if record is None or problems:
            raise EvidenceError(f"{path}: line {number}: {problems[0]}")
        yield record


def verify(folder: Path, expected_head: str | None = None) -> VerifyReport:
    """Check the chain, the artefacts and the terminal record; what is wrong is in ``problems``, nothing is raised.

    ``expected_head`` is the hash that ``EvidenceLog.close`` returned, kept elsewhere: the only defence
    against a chain that was written anew as a whole.
    """
    chain = Chain()
    problems: list[str] = []
    digests: dict[str, str] = {}
    try:
        for number, record, found in walk(folder / FILE_NAME, chain):
            wrong = [_artifact_problem(folder, artifact, digests) for artifact in (record.artifacts if record else [])]
            problems += [f"line {number}: {text}" for text in (*found, *wrong) if text]
            if len(problems) > MAX_PROBLEMS:
                problems = [*problems[:MAX_PROBLEMS], f"line {number}: stopped here, there may be more"]
                break
        else:
            problems += _end_problems(chain, expected_head)
    except EvidenceError as error:
        problems.append(str(error))
    return VerifyReport(not problems, chain.num_records, chain.head or "", problems, chain.terminal)


def _end_problems(chain: Chain, expected_head: str | None) -> list[str]:
    problems = []
    if chain.terminal is None:
        problems.append("there is no terminal record: the session did not end, or the end of the file was cut off")
    if expected_head is not None and chain.head != expected_head:
        problems.append(f"the head is {chain.head} instead of {expected_head}: this is another chain")
    return problems


def _artifact_problem(folder: Path, artifact: Artifact, digests: dict[str, str]) -> str | None:
    """Return what is wrong with an artefact; ``digests`` remembers the hashes of files that were read."""
    name = f"artefact {artifact.path!a:.200}"
    try:
        path = (folder / artifact.path).resolve()
        if PurePosixPath(artifact.path).is_absolute() or not path.is_relative_to(folder.resolve()):
            return f"{name} is outside the evidence folder; it was not read"
        if not path.is_file():
            return f"{name} is missing"
        if artifact.path not in digests:
            digests[artifact.path] = _file_digest(path)
    except OSError as error:
        return f"{name} cannot be read: {error.strerror}"
    except NO_FILE_NAME:
        return f"{name} is not the name of a file"
    return None if digests[artifact.path] == artifact.sha256 else f"{name} was changed: its SHA-256 differs"


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
