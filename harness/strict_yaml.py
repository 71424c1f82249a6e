"""How is a YAML file that somebody else wrote turned into typed data?

One door for every YAML file: size-limited, no anchors (they can expand without bound), no
duplicate keys, plain data only, and checked against a ``msgspec`` type that refuses unknown keys. Every error is
one sentence that names the file and the place in it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml
from yaml.reader import ReaderError

from harness.errors import UsageError

T = TypeVar("T")

MAX_BYTES = 1_000_000
"""Origin: the largest file that the project itself reads is below 10 kB; nobody writes a hundred times that by hand."""

TAG = "tag:yaml.org,2002:"

SCALARS = {
    "bool": (r"true|false", "tf"),
    "int": (r"[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    "float": (
        r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+|[-+]?\.inf|\.nan",
        "-+.0123456789",
    ),
}
"""How a plain scalar becomes a value, and the characters that it can begin with. Origin: the core schema of YAML 1.2,
without its hexadecimal and octal numbers. YAML 1.1 reads ``no`` as false, ``1:30`` as 90, ``010`` as 8 and ``1e-3`` as
text."""


PLAIN_WORDS = (
    (
        "mapping values are not allowed here",
        "a ': ' that is not expected; names begin in one column, and a text that holds ': ' is put into quotes",
    ),
    (r"expected ',' or '\]'", "the list that '[' opens is not closed; ',' or ']' is expected"),
    (r"expected ',' or '\}'", "the mapping that '{' opens is not closed; ',' or '}' is expected"),
    ("found unexpected end of stream", "the text that this quote opens is not closed; the same quote is expected"),
    ("could not find expected ':'", "a name without a value; 'name: value' is expected"),
    (
        "expected <block end>",
        "this does not belong to what is before it; the names of one level begin in the same column",
    ),
    ("expected the node content", "no value; 'name: value' is expected"),
    (r"found character '\\t'", "a tab; spaces are expected"),
    (
        "found character (.*) that cannot start",
        r"\1 cannot begin a value; a text that begins with it is put into quotes",
    ),
    ("found unknown escape character '(.*)'", r"\\\1 means nothing; a backslash in double quotes is written twice"),
    ("but found another document", "'---' begins a second document; one is expected"),
    (".*tag 'tag:yaml.org,2002:merge'", "'<<' is not accepted; all names are expected to be written out"),
)
"""How a problem that the parser reports begins, and the same in the words of somebody who writes a file."""

OPENED = ("flow sequence", "flow mapping", "quoted scalar", "simple key")
"""What is reported where it goes wrong, but has to be put right where it begins."""


class _PlainLoader(yaml.SafeLoader):
    """SafeLoader without aliases, without silently overwritten keys, and with the plain scalars of ``SCALARS``."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.MarkedYAMLError(None, None, "anchors and aliases are not accepted", event.start_mark)
        event = self.peek_event()
        if getattr(event, "tag", None):
            problem = f"the tag {event.tag!r} is not accepted; plain values are expected"
            raise yaml.MarkedYAMLError(None, None, problem, event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(None, None, f"the key {key!r} is not text", key_node.start_mark)
            if key in seen:
                raise yaml.MarkedYAMLError(None, None, f"the key {key!r} is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


_PlainLoader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag in {TAG + "null", TAG + "merge"}]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _name, (_pattern, _first) in SCALARS.items():
    _PlainLoader.add_implicit_resolver(TAG + _name, re.compile(f"^({_pattern})$"), list(_first))


def read_yaml(path: Path) -> Any:
    """Return the plain data in ``path``; raise UsageError when it is not readable YAML."""
    return parse_yaml(_read_text(path), str(path))


def parse_yaml(text: str, where: str) -> Any:
    """Return the plain data in ``text``; ``where`` names its origin in errors."""
    try:
        return yaml.load(text, _PlainLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not a YAML file that is accepted: {_in_plain_words(error, text)}") from error


def typed(data: Any, kind: type[T], where: str, *, strict: bool = True) -> T:
    """Convert plain data to ``kind``; raise UsageError with the path of the first wrong value."""
    try:
        return msgspec.convert(data, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {_sentence(str(error))}") from error


def _read_text(path: Path) -> str:
    try:
        # Bounded by what is read, not by the size that a pipe or a device would claim to have.
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise UsageError(f"{path}: a YAML file of at most {MAX_BYTES} bytes is accepted")
        return data.decode("utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start}); a YAML file is expected") from error


def _sentence(message: str) -> str:
    """Turn ``Expected `int` >= 1 - at `$.devices``` into ``devices: expected int >= 1``."""
    text, _, place = message.replace("`", "").partition(" - at $")
    text = text[0].lower() + text[1:]
    place = place.removeprefix(".")
    return f"{place}: {text}" if place else text


def _in_plain_words(error: Exception, text: str) -> str:
    """Say where the text is wrong, and what is expected there."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, ReaderError):
        before = text[: error.position]
        place = f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"
        return f"{place}: the character {chr(error.character)!a}; printable text is expected"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem:
        return f"{_place(error)}{_plain(error.problem)}"
    return "a number has too many digits"


def _place(error: yaml.MarkedYAMLError) -> str:
    begins = error.context_mark and (error.context or "").endswith(OPENED)
    mark = error.context_mark if begins else error.problem_mark
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""


def _plain(problem: str) -> str:
    for told, plain in PLAIN_WORDS:
        if found := re.match(told, problem):
            return found.expand(plain)
    return " ".join(problem.split())
