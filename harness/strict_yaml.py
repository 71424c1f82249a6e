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


class _PlainLoader(yaml.SafeLoader):
    """SafeLoader without aliases, without silently overwritten keys, and with the plain scalars of ``SCALARS``."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.MarkedYAMLError(None, None, "anchors and aliases are not accepted", event.start_mark)
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
        raise UsageError(f"{where}: not a YAML file that is accepted: {_one_line(error)}") from error


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


def _one_line(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return " ".join(str(error).split())
