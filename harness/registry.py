"""Which plug-ins are there? A plug-in is one file in its folder; the file is its own registration.

Listing names reads the folder only and imports nothing, so help texts and test collection stay
instant. Files that start with an underscore and ``base.py`` are shared code, not plug-ins.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Generic, TypeVar, cast

from harness.errors import UsageError

T = TypeVar("T")


class Registry(Generic[T]):
    """The plug-ins of one kind: ``attribute`` of each module in the folder of ``package``."""

    def __init__(self, kind: str, package: str, attribute: str) -> None:
        self.kind = kind
        self.package = package
        self.attribute = attribute

    def names(self) -> list[str]:
        """Return the sorted names of the plug-ins, from the file names alone."""
        folder = Path(__file__).parent.joinpath(*self.package.split(".")[1:])
        found = (module.name for module in pkgutil.iter_modules([str(folder)]))
        return sorted(name for name in found if name != "base" and not name.startswith("_"))

    def load(self, name: str) -> T:
        """Import and return one plug-in; an unknown name is a UsageError that lists what is there."""
        if name not in self.names():
            raise UsageError(
                f"unknown {self.kind} {name!r}{did_you_mean(name, self.names())}; there are: {', '.join(self.names())}"
            )
        module = importlib.import_module(f"{self.package}.{name}")
        return cast("T", getattr(module, self.attribute))

    def load_all(self) -> dict[str, T]:
        """Import and return every plug-in, by name."""
        return {name: self.load(name) for name in self.names()}


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return a question about the known name that is nearest to what was given; empty when none is near."""
    close = get_close_matches(given, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
