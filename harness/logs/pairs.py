"""Which named numbers does one line of a log hold, and does it speak of training or of validation?

One scanner serves every text format: ``key: value``, ``key=value``, ``key value``, quoted keys of Python dicts, values
in brackets, units, averages in parentheses behind a value, and counters such as ``[ 50/1251]``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from harness.logs.names import TRAIN_WORDS, VAL_WORDS, meaning_of

NUMBER = (
    r"[-+]?(?:0,\d+(?=[;\s)]|$)|\d+,\d{1,2}(?=;|\s|$)|\d{1,3}(?:,\d{3})+(?:\.\d+)?"
    r"|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)"
)
NOT_FINITE = r"[-+]?(?:nan|inf(?:inity)?)(?![A-Za-z]|\s+iterations)"
UNIT = r"(?:\s?(?:ms|us|s/it|it/s|secs?|seconds|min|s|h|[kKMGT]i?B|k|K|M|%|G)(?![\w/]|\s*[:=]))"

PAIR = re.compile(
    r"(?<![A-Za-z_])(?P<key>[A-Za-z_][\w./@%\-]{0,80}"
    r"(?:[ ](?!-)[A-Za-z_@(][\w./@%\-]{0,80}\)?){0,6}?(?:\s?\([\w%/ ]{1,12}\))?)"
    r"['\"]?(?P<sep>\s*[:=]\s*|\s+)"
    r"(?:(?:tensor|array|np\.float\d\d|np\.float_)\()?[\[('\"]*\s*"
    rf"(?P<value>{NOT_FINITE}|{NUMBER})(?!\d|:\d|\.\d|[-/]\d+[-/:])(?P<unit>{UNIT})?"
    r"(?:(?:,\s*[\d.]+/s)?\s*\(\s*(?P<mean>" + NOT_FINITE + "|" + NUMBER + r")s?(?:,\s*[\d.]+/s)?\s*\))?",
    re.IGNORECASE,
)

COUNTER = re.compile(r"[\[(| ]\s*(?P<done>\d+)\s*/\s*(?P<total>\d+)(?![\d/.])")

KERAS_STEP = re.compile(r"(?P<value>\d+(?:\.\d+)?)(?P<unit>us|ms|s)/(?:step|sample|batch)\b")

BAR_RATE = re.compile(r"(?P<value>\d+(?:\.\d+)?)\s?(?P<unit>it/s|s/it|batch/s|steps?/s)\b")

STAMP = re.compile(
    r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?"
    r"|\b\d{1,2}/\d{1,2}/\d{2,4}\b|\b[IWEF]\d{4}(?= )|\b\d{4}-\d\d-\d\d\b"
)

RANK = re.compile(
    r"^\s*(?:\[?(?:rank|default|worker)\s*\d+\]?\s*[:|]\s*|\(\w+ pid=\d+[^)]*\)\s*|\[?\d{1,4}\]?:\s+(?=\D))+",
    re.IGNORECASE,
)

_SPLITS = "|".join(sorted(TRAIN_WORDS | VAL_WORDS))
SPLIT_WORD = re.compile(rf"(?<![A-Za-z_./-])({_SPLITS})(?![A-Za-z./-])", re.IGNORECASE)
SPLIT_IN_KEY = re.compile(rf"(?<![A-Za-z_./-])({_SPLITS})(?![A-Za-z_./-])", re.IGNORECASE)

EPOCH_BEFORE_COUNTER = re.compile(
    r"\b(?:train|test|val|valid|eval|validate|epoch)\w*:?\s*\[?(\d+)\]?:?\s*(?=[\[(]\s*\d+/)", re.IGNORECASE
)

MMENGINE = re.compile(r"\bEpoch\s*\((train|val|test)\)\s*\[(\d+)\]", re.IGNORECASE)

MEAN = " (mean)"
"""Ending of the key of a mean over the epoch, which some programs print in parentheses behind a value."""

MAX_SCANNED = 4096
"""Characters of a line of text that are searched: one print of a training program has fewer."""

FACTOR = {"ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0, "k": 1e3}


@dataclass
class Row:
    """What one line says."""

    line: int
    pairs: list[Pair] = field(default_factory=list)
    batch: tuple[int, int] | None = None
    """Position within an epoch or a bar, and its length."""
    split: str = ""
    """What the line says of itself, for keys that do not say."""
    others: list[str] = field(default_factory=list)
    """Keys that mean nothing to us, which may still say what kind of training it is."""
    table: bool = False
    """Whether it is a row of a table, in which ``nan`` may stand for an empty cell."""


@dataclass(frozen=True)
class Pair:
    """One named number."""

    key: str
    value: float
    split: str = ""
    unit: str = ""


def scan(number: int, text: str) -> Row:
    """Return the named numbers of one line of text."""
    row, text = Row(number), text[:MAX_SCANNED]
    text = RANK.sub("", STAMP.sub(" ", text), count=1)
    _pairs(text, row)
    epoch = MMENGINE.search(text) or EPOCH_BEFORE_COUNTER.search(text)
    if epoch and all(meaning_of(pair.key).name != "epoch" for pair in row.pairs):
        row.pairs.append(Pair("epoch", float(epoch[epoch.lastindex or 1])))
    counters = [m for m in COUNTER.finditer(" " + text) if int(m["total"]) > 1]
    own = {pair.value for pair in row.pairs if meaning_of(pair.key).name in {"epoch", "step"}}
    batch = next((m for m in counters if int(m["done"]) <= int(m["total"]) and float(m["done"]) not in own), None)
    row.batch = (int(batch["done"]), int(batch["total"])) if batch else None
    _rates(text, row)
    return row


def number_of(text: str) -> float | None:
    """Return a number as programs write it: thousands separators, decimal commas, nan; None for anything else."""
    text = text.strip().strip("'\"")
    if "," in text:
        whole = re.fullmatch(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?", text)
        text = text.replace(",", "") if whole else text.replace(",", ".", 1)
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None


def _pairs(text: str, row: Row) -> None:
    """Read all pairs; what stands between them may say whether training or validation follows."""
    end, split = 0, ""
    for match in PAIR.finditer(text):
        said = SPLIT_WORD.findall(text, end, match.start()) + SPLIT_IN_KEY.findall(match["key"])
        split = _split_named(said[-1]) if said else split
        end = match.end("unit") if match["unit"] else match.end("value")
        key, value = match["key"].strip(), number_of(match["value"])
        meaning = meaning_of(key)
        if value is None or not meaning.name:
            row.others.append(key)
            continue
        row.split = row.split or split
        mine, unit = meaning.split or split, match["unit"] or ""
        row.pairs.append(_pair(key, value, mine, unit))
        mean = number_of(match["mean"]) if match["mean"] else None
        if mean is not None and meaning.name not in {"step", "epoch"}:
            row.pairs.append(_pair(key + MEAN, mean, mine, unit))


def _pair(key: str, value: float, split: str, unit: str) -> Pair:
    unit = unit.strip().lower()
    if unit in {"it/s", "s/it"}:
        return Pair("s/it", 1 / value if unit == "it/s" and value else value, split, "s")
    if not unit and re.search(r"[ _(/]ms\)?$", key):
        unit = "ms"
    return Pair(key, value * FACTOR.get(unit, 1.0), split, unit)


def _rates(text: str, row: Row) -> None:
    """Read the speed that bars show without a name."""
    found = KERAS_STEP.search(text)
    if found:
        row.pairs.append(Pair("s/step", float(found["value"]) * FACTOR.get(found["unit"], 1.0), row.split, "s"))
        return
    bar = BAR_RATE.search(text)
    if bar and float(bar["value"]) > 0:
        value = float(bar["value"])
        row.pairs.append(Pair("s/it", value if bar["unit"] == "s/it" else 1 / value, row.split, "s"))


def _split_named(word: str) -> str:
    return "train" if word.lower() in TRAIN_WORDS else "val"
