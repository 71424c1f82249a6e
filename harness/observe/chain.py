"""Does every record fit the one before it? The records of an evidence log and the walk along their chain.

A record's hash covers its content and the hash of the record before it. The walk reads one line at
a time, from a file that somebody else may have written: garbage is a sentence, never a traceback.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import msgspec
from msgspec import Meta

from harness.errors import EvidenceError, UsageError
from harness.observe.canonical import digest
from harness.observe.outcome import Outcome
from harness.strict_yaml import typed

NO_RECORD = "0" * 64
"""``prev`` of the first record."""

MAX_LINE_BYTES = 1_000_000
"""Origin: a record of a scenario is about 1 kB; what is a thousand times longer belongs into an artefact."""

Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Name = Annotated[str, Meta(pattern=r"^[ -~]{1,200}\Z")]
Number = float | Literal["nan", "inf", "-inf"]


class Tolerance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a repeated number may be from the recorded one: the wider of the two bounds counts."""

    relative: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """A share of the recorded number; above 1 even a change of sign would pass."""
    absolute: Annotated[float, Meta(ge=0, lt=1e30)] = 0.0
    """In the unit of the number."""


class Artifact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file beside the log; ``path`` is relative to the evidence folder, with slashes."""

    path: str
    sha256: Sha256


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the log."""

    seq: int
    """1 for the first record, so that it is the line number too."""
    time: Annotated[datetime, Meta(tz=True)]
    command: list[str]
    environment: str
    expected: Any
    observed: Any
    verdict: Outcome
    artifacts: list[Artifact]
    prev: Sha256
    hash: Sha256
    kind: Literal["environment", "check", "terminal"] = "check"
    subject: str = ""
    tolerance: Tolerance | None = None
    values: dict[Name, Number] = {}


class Terminal(msgspec.Struct, frozen=True, kw_only=True):
    """``observed`` of the terminal record: what was complete when the session ended."""

    records: int
    """Records before this one."""
    head: str
    """Hash of the last of them."""
    planned: Annotated[int, Meta(ge=0)]
    executed: Annotated[int, Meta(ge=0)]


@dataclass
class Chain:
    """How far a chain was followed: what the next record has to fit."""

    num_lines: int = 0
    num_records: int = 0
    """Readable records, without terminal ones."""
    seq: int = 0
    head: str | None = NO_RECORD
    """Hash of the last record; None after a line that cannot be read."""
    environments: dict[str, None] = field(default_factory=dict)
    """Ids in order of appearance."""
    terminal: Terminal | None = None

    def examine(self, line: bytes) -> tuple[Record, list[str]]:
        """Return the record in ``line`` and why it does not fit here; EvidenceError when it is no record at all."""
        if len(line) > MAX_LINE_BYTES:
            raise EvidenceError(f"a record of {len(line)} bytes; at most {MAX_LINE_BYTES} are accepted")
        try:
            record, content = _parse(line)
            return record, self._problems(record, content)
        except RecursionError as error:
            raise EvidenceError("not a record: nested too deeply") from error

    def advance(self, record: Record) -> None:
        """Move behind ``record``."""
        self.num_lines += 1
        self.num_records += record.kind != "terminal"
        self.seq, self.head = record.seq, record.hash
        if record.kind == "environment":
            self.environments[record.environment] = None
        if record.kind == "terminal":
            self.terminal = _terminal(record)

    def skip(self) -> None:
        """Move behind a line that cannot be read."""
        self.num_lines += 1
        self.seq, self.head = self.seq + 1, None

    def _problems(self, record: Record, content: str) -> list[str]:
        checks = (
            (
                record.seq == self.seq + 1,
                f"seq is {record.seq} instead of {self.seq + 1}: records are missing or moved",
            ),
            (self.head is None or record.prev == self.head, "prev is not the hash of the record before it"),
            (record.hash == content, "the content does not match its hash: the record was changed"),
            (self.terminal is None, "it follows the terminal record"),
            (self._environment_fits(record), f"environment {record.environment!a:.80} matches no environment record"),
            (self._terminal_fits(record), "the terminal record does not match the records before it"),
        )
        return [sentence for holds, sentence in checks if not holds]

    def _environment_fits(self, record: Record) -> bool:
        if record.kind == "environment":
            return record.environment == digest(record.observed)[:12]
        return record.environment in self.environments or (record.kind == "terminal" and not self.environments)

    def _terminal_fits(self, record: Record) -> bool:
        if record.kind != "terminal":
            return True
        end = _terminal(record)
        return end is not None and (end.records, end.head) == (self.num_lines, record.prev)


def walk(path: Path, chain: Chain) -> Iterator[tuple[int, Record | None, list[str]]]:
    """Yield number, record (None when unreadable) and problems of each line, and move ``chain`` along.

    EvidenceError when the file cannot be read, or has a line above ``MAX_LINE_BYTES``.
    """
    for number, line in _lines(path):
        try:
            record, problems = chain.examine(line)
        except EvidenceError as error:
            chain.skip()
            yield number, None, [str(error)]
        else:
            chain.advance(record)
            yield number, record, problems


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        if not path.is_file():
            raise EvidenceError(f"{path}: there is no evidence file")
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise EvidenceError(f"{path}: line {number} is longer than {MAX_LINE_BYTES} bytes; stopped there")
                yield number, line
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be read: {error.strerror}") from error


def _parse(line: bytes) -> tuple[Record, str]:
    """Return the record in ``line`` and the hash that its content has."""
    if not line.endswith(b"\n"):
        raise EvidenceError("the line is cut off: it does not end with a newline")
    try:
        data = json.loads(line.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant)
        record = typed(data, Record, "record", strict=True)
        return record, digest({key: value for key, value in data.items() if key != "hash"})
    except json.JSONDecodeError as error:
        raise EvidenceError(f"not a record: no JSON ({error.msg}, character {error.pos})") from error
    except UnicodeDecodeError as error:
        raise EvidenceError(f"not a record: not UTF-8 text (byte {error.start})") from error
    except (UsageError, ValueError) as error:
        raise EvidenceError(f"not a record: {_printable(str(error))}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Of two equal keys one reader takes the first and another the last: the hash would cover only one of them.
    data = dict(pairs)
    if len(data) != len(pairs):
        raise ValueError("a key is given twice")
    return data


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not standard JSON")


def _terminal(record: Record) -> Terminal | None:
    try:
        return msgspec.convert(record.observed, Terminal)
    except msgspec.ValidationError:
        return None


def _printable(text: str) -> str:
    """Return at most 200 characters of ``text`` without control characters, which could steer a terminal."""
    return text[:200].encode("unicode_escape").decode("ascii")
