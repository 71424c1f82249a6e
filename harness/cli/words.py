"""How is a diagnosis told: to a person, on one screen, and to a program?"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator

import msgspec

from harness.diagnose.finding import NO_BOUND, Diagnosis, Evidence, Finding, Missing
from harness.diagnose.known import Known
from harness.diagnose.vocabulary import meaning
from harness.observe.recorder import standard

EXIT_CODES = {"healthy": 0, "diagnosed": 1, "not_enough_evidence": 3, "inconclusive": 3}
"""Unusable input is 2."""

WIDTH = 110
"""Characters in a line."""

SCREEN = 24
"""Lines that are told at most; ``--verbose`` tells everything."""

MAX_MISSING = 3
"""Causes for which it is told what is missing."""


def as_json(result: Diagnosis) -> str:
    """Return the diagnosis as JSON."""
    return msgspec.json.format(msgspec.json.encode(standard(msgspec.to_builtins(result))), indent=2).decode()


def as_words(result: Diagnosis, *, verbose: bool = False, read: str = "") -> list[str]:
    """Return the lines that a person reads; ``verbose`` leaves out nothing and says where each number was read.

    ``read`` is what the numbers were taken from, where a reader may doubt it.
    """
    lines = list(_all_of(result, read) if verbose else _screen_of(result, read))
    known = [f"known, judged harmless: {_headline(finding)}" for finding in result.known]
    return [*lines, *known]


def no_longer_found(known: Collection[Known], result: Diagnosis) -> list[str]:
    """Return a line for each known finding that is not there any more: it can go from its file."""
    gone = [entry for entry in known if not any(entry.covers(finding) for finding in result.known)]
    return [f"known but not found: {entry}" for entry in gone]


def _screen_of(result: Diagnosis, read: str) -> Iterator[str]:
    if result.status == "healthy":
        yield _healthy(result, read)
        return
    yield f"status: {result.status.replace('_', ' ')}" + (f"; {read}" if read else "")
    if result.findings:
        yield from _findings_of(result.findings, SCREEN - 2 - len(result.known))
        return
    every = _by_cause(result.missing)
    yield from (line for cause in list(every)[:MAX_MISSING] for line in _needed(cause, every[cause]))
    if len(every) > MAX_MISSING:
        yield from _part("", f"and for {', '.join(list(every)[MAX_MISSING:])}")


def _findings_of(findings: list[Finding], room: int) -> Iterator[str]:
    """Yield findings in full while there is room, a cause that was told before by its place alone."""
    causes: set[str] = set()
    for told, finding in enumerate(findings):
        block = [f"also {_headline(finding)}"] if finding.cause in causes else list(_told(finding))
        if told and len(block) > room:
            names = ", ".join(sorted({left.cause for left in findings[told:]}))
            yield f"and {len(findings) - told} more: {names}; --verbose lists all"
            return
        yield from block
        room -= len(block)
        causes.add(finding.cause)


def _told(finding: Finding) -> Iterator[str]:
    yield _headline(finding)
    yield from _part("seen", finding.summary)
    yield from _part("numbers", "; ".join(map(_number, finding.evidence)))
    yield from _part("confirm", finding.confirm)
    yield from _part("to do", finding.action)


def _healthy(result: Diagnosis, read: str) -> str:
    """Return the one line that says what was checked and what could not be."""
    needs = {cause: missing[0].observation for cause, missing in _by_cause(result.missing).items()}
    unknown = ", ".join(f"{cause} (needs {meaning(need)})" for cause, need in needs.items())
    parts = [
        "status: healthy",
        f"checked: {', '.join(result.checked)}" if result.checked else "nothing was checked",
        *([read] if read else []),
        *([f"not checked: {unknown}"] if unknown else []),
    ]
    return "; ".join(parts)


def _all_of(result: Diagnosis, read: str) -> Iterator[str]:
    yield f"status: {result.status.replace('_', ' ')}" + (f"; {read}" if read else "")
    for finding in result.findings:
        yield from ("", _headline(finding), *_part("seen", finding.summary))
        yield from (line for entry in finding.evidence for line in _measured(entry))
        yield from (*_part("confirm", finding.confirm), *_part("to do", finding.action), "")
    for cause, missing in _by_cause(result.missing).items():
        yield from _needed(cause, missing)
    yield from _part("checked", ", ".join(result.checked) or "nothing")


def _headline(finding: Finding) -> str:
    place = f" at {finding.place}" if finding.place else ""
    return f"{finding.category}: {finding.cause}{place} (confidence {finding.confidence:.0%})"


def _part(name: str, text: str) -> Iterator[str]:
    """Yield a labelled text, its further lines below its first word."""
    label = f"  {name:<9}"
    lines = textwrap.wrap(text, WIDTH - len(label), break_long_words=False, break_on_hyphens=False)
    for at, line in enumerate(lines):
        yield (label if not at else " " * len(label)) + line


def _number(entry: Evidence) -> str:
    bound = "" if _is_context(entry) else f" ({entry.threshold})"
    return f"{entry.name} = {_value(entry)}{bound}"


def _measured(entry: Evidence) -> Iterator[str]:
    bound = "for context" if _is_context(entry) else f"bound {entry.threshold}"
    yield from _part("", f"{entry.name} = {_value(entry)} ({bound}; {entry.source})")
    if meaning(entry.name) != entry.name:
        yield from _part("", f"  that is: {meaning(entry.name)}")


def _is_context(entry: Evidence) -> bool:
    return entry.threshold == NO_BOUND


def _value(entry: Evidence) -> str:
    value = entry.value if isinstance(entry.value, str) else f"{entry.value:.4g}"
    return f"{value} {entry.unit}".rstrip()


def _by_cause(missing: list[Missing]) -> dict[str, list[Missing]]:
    by_cause: dict[str, list[Missing]] = {}
    for entry in missing:
        by_cause.setdefault(entry.needed_for, []).append(entry)
    return by_cause


def _needed(cause: str, missing: list[Missing]) -> Iterator[str]:
    yield from _part("missing", f"for {cause}: {', '.join(meaning(entry.observation) for entry in missing)}")
    for command in dict.fromkeys(entry.command for entry in missing):
        yield f"{'':11}to get it: {command}"  # in one line, to be copied
