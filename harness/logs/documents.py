"""Which rows does JSON hold? A record a line, a trainer state with its history, a list of records, a list a name."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.logs.names import TRAIN_WORDS, VAL_WORDS, meaning_of
from harness.logs.pairs import Pair, Row, number_of

MAX_DOCUMENT_BYTES = 64 << 20
"""A larger JSON document is read line by line as text: parsing takes about ten times its size."""

NOT_MEASURED = frozenset({"spec", "config", "args", "summary", "environment", "hparams", "params", "versions"})

HISTORY = re.compile(r'"(?:log_history|history|logs|metrics|records)"\s*:\s*\[')


def record_row(number: int, text: str) -> Row | None:
    """Return one line as a JSON record; None when it is none."""
    if not text.startswith("{") or not text.endswith("}"):
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return row_of(number, data) if isinstance(data, dict) else None


def row_of(number: int, record: dict[str, Any]) -> Row:
    """Return the numbers of one record."""
    row = Row(number)
    split = record.get("split", record.get("mode", record.get("phase", "")))
    row.split = _split(split) if isinstance(split, str) else ""
    _fill(row, record, "")
    if record.get("goal") == "min":  # of our own records: the metric is an error
        row.pairs = [Pair("val_error", p.value, "val") if p.key == "val_metric" else p for p in row.pairs]
    return row


def document_rows(path: Path) -> Iterator[Row] | None:
    """Return the rows of a file that is one JSON document; None when it is none, or too large."""
    if path.stat().st_size > MAX_DOCUMENT_BYTES:
        return None
    with path.open("rb") as file:
        if file.read(256).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in {b"{", b"["}:
            return None
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(data, dict) and all(not isinstance(value, (list, dict)) for value in data.values()):
        return None
    return _rows(text, data)


def _rows(text: str, data: Any) -> Iterator[Row]:
    if isinstance(data, dict):
        columns = _columns(data)
        if columns:
            yield from columns
            return
    history = HISTORY.search(text) if isinstance(data, dict) else re.search(r"\[", text)
    if history:
        yield from _items(text, history.end())


def _items(text: str, position: int) -> Iterator[Row]:
    """Yield the records of an array in the text, each with the line on which it starts."""
    decoder, line, counted = json.JSONDecoder(), 1, 0
    while True:
        position = _skip(text, position)
        if position >= len(text) or text[position] != "{":
            return
        line, counted = line + text.count("\n", counted, position), position
        record, position = decoder.raw_decode(text, position)
        yield row_of(line, record)


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in ", \t\r\n":
        position += 1
    return position


def _columns(data: dict[str, Any]) -> list[Row]:
    """Return a Keras history: one list of numbers for each name."""
    inner = data.get("history")
    data = inner if isinstance(inner, dict) else data
    lists = {key: value for key, value in data.items() if isinstance(value, list) and meaning_of(key).name}
    length = max((len(value) for value in lists.values()), default=0)
    if length < 2 or any(isinstance(item, (dict, list)) for value in lists.values() for item in value[:1]):
        return []
    rows = []
    for index in range(length):
        record = {key: value[index] for key, value in lists.items() if index < len(value)}
        rows.append(row_of(1, record if "epoch" in record else {"epoch": index + 1, **record}))
    return rows


def _fill(row: Row, record: dict[str, Any], split: str) -> None:
    for key, value in record.items():
        if isinstance(value, dict) and key not in NOT_MEASURED and len(row.pairs) < 500:
            _fill(row, value, _split(key) or split)
            continue
        number = _number(value)
        meaning = meaning_of(key)
        if number is None or not meaning.name:
            row.others.append(key)
        else:
            row.pairs.append(Pair(key, number, meaning.split or split or row.split))


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return number_of(value) if isinstance(value, str) else float(value)
    except OverflowError:
        return math.inf


def _split(word: str) -> str:
    word = word.lower()
    return "train" if word in TRAIN_WORDS else "val" if word in VAL_WORDS else ""
