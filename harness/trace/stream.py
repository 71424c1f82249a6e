"""How is a file that is larger than memory should be read? In pieces that end with an event, decoded one at a time.

Where a piece may end is guessed from the bytes, and the parser has the last word: what it cannot decode is cut earlier.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Generic, TypeVar

import msgspec

T = TypeVar("T")

PIECE = 4 * 2**20
"""Bytes that are decoded at a time: the events of a piece are then some tens of megabytes of objects."""

LONGEST = 64 * 2**20
"""Bytes in which an event has to end; a longer one is no event of a profiler."""

MAX_TRIES = 50
"""Ends that are tried in one piece: more than a few mean that the text is not what it looks like."""

OPENING = re.compile(rb'"traceEvents"\s*:\s*\[')

BETWEEN = re.compile(rb"\}\s*,\s*(?=\{)")
"""What stands between two events, and may stand elsewhere too."""


class NotPlainError(ValueError):
    """The file is not as profilers write it; it may be read whole, with repairs."""


class Pieces(Generic[T]):
    """The events of one file in pieces; afterwards ``rest`` is the file without them."""

    def __init__(self, path: Path, decode: Callable[[bytes], list[T]]) -> None:
        self.path, self.decode = path, decode
        self.rest = b""

    def __iter__(self) -> Iterator[list[T]]:
        """Yield lists of events; NotPlainError when the file has another form, EOFError when it is cut off."""
        chunks = _chunks(self.path)
        head = b""
        while not (opening := OPENING.search(head)):
            if not (more := next(chunks, b"")) or len(head) > LONGEST:
                raise NotPlainError("no traceEvents")
            head += more
        before, left = head[: opening.end()], head[opening.end() :]
        for chunk in chunks:
            left += chunk
            if len(left) >= PIECE:
                events, left = self._complete(left)
                if events:
                    yield events
                elif len(left) > LONGEST:
                    raise NotPlainError("an event without an end")
        events, after = self._last(left)
        yield events
        self.rest = before + after

    def _complete(self, text: bytes) -> tuple[list[T], bytes]:
        """Return the events that end in a text, and what is left of it."""
        ends = [match.end() for match in BETWEEN.finditer(text, max(0, len(text) - PIECE // 4))]
        for end in ends[: -MAX_TRIES - 1 : -1]:
            try:
                return self.decode(b"[" + text[:end].rstrip().rstrip(b",") + b"]"), text[end:]
            except msgspec.ValidationError as error:
                raise NotPlainError(str(error)) from error
            except msgspec.DecodeError:
                continue
        return [], text

    def _last(self, text: bytes) -> tuple[list[T], bytes]:
        """Return the last events, and what follows the array."""
        at = len(text)
        for _ in range(MAX_TRIES):
            at = text.rfind(b"]", 0, at)
            if at < 0:
                break
            try:
                return self.decode(b"[" + text[: at + 1]), text[at:]
            except msgspec.ValidationError as error:
                raise NotPlainError(str(error)) from error
            except msgspec.DecodeError:
                continue
        raise NotPlainError("the array has no end")


def _chunks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, unpacked; EOFError when a packed one is cut off."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        yield from _unpacked(file) if packed else iter(lambda: file.read(PIECE), b"")


def _unpacked(file: IO[bytes]) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(wbits=31)
    while data := (unpacker.unconsumed_tail or unpacker.unused_data or file.read(PIECE // 4)):
        if unpacker.eof:  # another member follows
            unpacker = zlib.decompressobj(wbits=31)
        if piece := unpacker.decompress(data, PIECE):
            yield piece
    if not unpacker.eof:
        raise EOFError("the packed data end early")
