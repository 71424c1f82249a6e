"""Which part of a run does a user mean? A field of the run spec, spelled as its flag or as its name."""

from __future__ import annotations

from harness.config import RunSpec
from harness.errors import UsageError


def known_part(text: str, flag: str) -> str:
    """Return the name of the field; UsageError for anything else."""
    name = text.strip().replace("-", "_")
    if name not in RunSpec.__struct_fields__:
        raise UsageError(f"{flag}: unknown part {text!r}; known are: {', '.join(RunSpec.__struct_fields__)}")
    return name
