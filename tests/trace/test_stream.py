"""Are the events of a file the same in pieces of any size, and is a file of another form left to others?"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.trace import stream
from harness.trace.stream import NotPlainError, Pieces

TRICKY: list[dict[str, Any]] = [
    {"name": "plain", "ts": 1},
    {"name": 'a text with }, {"name": in it', "ts": 2},
    {"name": "nested", "args": {"shapes": [{"a": 1}, {"b": 2}], "text": "]}"}},
    {"name": "last ]", "args": {}},
]


def read(path: Path) -> tuple[list[Any], bytes]:
    """Return all events, and the rest of the file."""
    pieces = Pieces(path, msgspec.json.decode)
    return [event for events in pieces for event in events], pieces.rest


@pytest.mark.parametrize("size", [40, 100, 333, 5000])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("packed", [False, True])
def test_pieces_of_any_size(
    *, size: int, indent: int | None, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts and nested lists that look like the end of an event are none; what stands around the events is kept."""
    monkeypatch.setattr(stream, "PIECE", size)
    events = TRICKY * 20
    data = json.dumps({"before": [1], "traceEvents": events, "after": {"b": "]"}}, indent=indent).encode()
    (tmp_path / "trace").write_bytes(gzip.compress(data) if packed else data)
    found, rest = read(tmp_path / "trace")
    assert found == events
    assert msgspec.json.decode(rest) == {"before": [1], "traceEvents": [], "after": {"b": "]"}}


def test_members_of_a_packed_file(tmp_path: Path) -> None:
    """Packed files may be put one behind the other."""
    data = json.dumps({"traceEvents": TRICKY}).encode()
    (tmp_path / "trace").write_bytes(gzip.compress(data[:50]) + gzip.compress(data[50:]))
    assert read(tmp_path / "trace")[0] == TRICKY


@pytest.mark.parametrize(
    "text", ["", "[]", '{"other": []}', '{"traceEvents": [{"name": 1}', '{"traceEvents": [{"name": NaN}]}']
)
def test_other_forms_are_left_to_others(text: str, tmp_path: Path) -> None:
    """Nothing is guessed here."""
    (tmp_path / "trace").write_text(text, encoding="utf-8")
    with pytest.raises(NotPlainError):
        read(tmp_path / "trace")


def test_no_events(tmp_path: Path) -> None:
    """An empty list is one."""
    (tmp_path / "trace").write_text('{"traceEvents": []}', encoding="utf-8")
    assert read(tmp_path / "trace") == ([], b'{"traceEvents": []}')


def test_a_packed_file_that_is_cut_off(tmp_path: Path) -> None:
    """It is said, and not taken for the end."""
    data = gzip.compress(json.dumps({"traceEvents": TRICKY * 100}).encode())
    (tmp_path / "trace").write_bytes(data[: len(data) // 2])
    with pytest.raises(EOFError):
        read(tmp_path / "trace")
