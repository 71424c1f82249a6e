"""How can a planned check end? The words for it, and the integrity gate that is made of checks."""

from __future__ import annotations

from typing import Literal

import msgspec

Outcome = Literal["PASSED", "FAILED", "ERROR", "SKIPPED", "BLOCKED", "RECORDED", "INCONCLUSIVE", "TIMEOUT"]


class GateCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the integrity gate."""

    name: str
    outcome: Outcome
    observed: str
    expected: str
    remedy: str = ""
    """What to do; empty when the check passed."""


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """The integrity gate as a whole: FAILED when any check FAILED."""

    outcome: Outcome
    checks: list[GateCheck]
