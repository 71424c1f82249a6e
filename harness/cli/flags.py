"""Which flags does a command take? A command line whose mistakes are one sentence, without a wall of usage above it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import NoReturn

from harness.errors import UsageError

PLAIN = (
    (
        r"argument ([^:]+): expected one argument",
        r"\1: a value is missing; one that begins with - is given as \1=VALUE",
    ),
    (r"argument ([^:]+): ignored explicit argument (.*)", r"\1: got \2, but it takes no value"),
    (r"the following arguments are required: (.*)", r"\1 is missing"),
    (r"argument ([^:]+): ", r"\1: "),
)
"""What argparse says, and how it is said here."""

MAX_DIGITS = 18
"""No number of a command line needs more; Python itself refuses to read thousands."""


class Flags(argparse.ArgumentParser):
    """A command line: whatever is wrong with it is a UsageError; ``--help`` prints the help and ends the process."""

    def __init__(self, prog: str, description: str, usage: str | None = None) -> None:
        super().__init__(prog=prog, description=description, usage=usage, allow_abbrev=False)

    def read(self, words: list[str]) -> argparse.Namespace:
        """Return the values; UsageError says what was given, what is accepted, and which command it was."""
        if unknown := self._unknown(words):
            self.error("unknown flag " + ", ".join(map(self._hinted, unknown)))
        values, left = self.parse_known_args(words)
        if left:
            names = [action.metavar for action in self._get_positional_actions() if isinstance(action.metavar, str)]
            self.error(f"unexpected word {left[0]!r}, accepted are {' and '.join([*names, 'flags'])}")
        return values

    def error(self, message: str) -> NoReturn:
        """Raise UsageError with the message in plain words."""
        for told, plain in PLAIN:
            message = re.sub(f"^{told}", plain, message)
        raise UsageError(f"{message}; {self.prog} --help lists what is accepted")

    def _unknown(self, words: list[str]) -> list[str]:
        """Return the flags that there are not; a word after ``--`` is none, and who asks for help gets it."""
        end = words.index("--") if "--" in words else len(words)
        if {"-h", "--help"}.intersection(words[:end]):
            return []
        given = [word.partition("=")[0] for word in words[:end] if re.match(r"--|-[A-Za-z]", word)]
        return [flag for flag in given if flag not in self._option_string_actions]

    def _hinted(self, flag: str) -> str:
        names = [known.lstrip("-") for known in self._option_string_actions]
        close = get_close_matches(flag.lstrip("-"), names, n=1)
        return f"{flag} (did you mean --{close[0]}?)" if close else flag


def one_of(*accepted: str) -> Callable[[str], str]:
    """Return a reader of one of these words."""

    def read(text: str) -> str:
        if text not in accepted:
            raise argparse.ArgumentTypeError(f"got {text!r}, accepted are {', '.join(accepted)}")
        return text

    return read


def whole(lowest: int, highest: int | None = None) -> Callable[[str], int]:
    """Return a reader of a whole number within these bounds."""
    bounds = f"of at least {lowest}" if highest is None else f"from {lowest} to {highest}"

    def read(text: str) -> int:
        number = int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else -1
        if number < lowest or (highest is not None and number > highest):
            raise argparse.ArgumentTypeError(f"got {text!r}, a whole number {bounds} is accepted")
        return number

    return read
