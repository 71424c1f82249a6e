"""Which findings did somebody judge harmless? A file with one line for each, and the reason.

    low_precision_weights at train.py: the optimizer rounds at random
    clip_before_unscale at train.py:40: only measures the norm

The file and the line may be left out, and so may folders before the file. Lines that begin with # are comments.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.diagnose.finding import Finding
from harness.errors import UsageError
from harness.registry import did_you_mean

FORM = re.compile(r"(?P<cause>\w+)(?: +at +(?P<place>\S+?))? *: +(?P<reason>\S.*)")


@dataclass(frozen=True)
class Known:
    """A cause that was judged harmless at a place; everywhere, when that is empty."""

    cause: str
    place: str
    reason: str

    def covers(self, finding: Finding) -> bool:
        """Tell whether it is this finding; a place without a line number covers every line of the file."""
        file, _, line = finding.place.rpartition(":")
        places = (finding.place, file if line.isdecimal() else finding.place)
        here = not self.place or any(place == self.place or place.endswith(f"/{self.place}") for place in places)
        return self.cause == finding.cause and here

    def __str__(self) -> str:
        return f"{self.cause} at {self.place}" if self.place else self.cause


def read_known(path: Path, causes: Collection[str]) -> list[Known]:
    """Read a file of known findings; UsageError names a line that is none, or is of none of the ``causes``."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(
            f"--known {path}: cannot be read: {reason}; an empty file is accepted to begin with"
        ) from error
    told = ((number, line.strip()) for number, line in enumerate(lines, 1))
    return [_read(line, f"--known {path}:{number}", causes) for number, line in told if line and line[0] != "#"]


def _read(line: str, where: str, causes: Collection[str]) -> Known:
    match = FORM.fullmatch(line)
    if match is None:
        raise UsageError(f"{where}: got {line!r}, accepted is CAUSE: REASON or CAUSE at FILE[:LINE]: REASON")
    if match["cause"] not in causes:
        raise UsageError(f"{where}: unknown cause {match['cause']!r}{did_you_mean(match['cause'], causes)}")
    return Known(match["cause"], match["place"] or "", match["reason"])


def parted(findings: Iterable[Finding], known: Collection[Known]) -> tuple[list[Finding], list[Finding]]:
    """Return the findings that are new, and those that are known."""
    old = [finding for finding in findings if any(one.covers(finding) for one in known)]
    return [finding for finding in findings if finding not in old], old
