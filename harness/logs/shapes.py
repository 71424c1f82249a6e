"""Where do the numbers stand in a line? All lines of one shape have them at the same places.

A log repeats a few lines with other digits. The shape of a line is the line with every digit as 1; the regular
expressions are asked once for each shape, and every later line of it is cut at the places that they found. Nothing
that is decided here may therefore depend on a digit; what does (which counter has a total) is decided for each line.

One scanner serves every text format: ``key: value``, ``key=value``, ``key value``, quoted keys of Python dicts, values
in brackets, units, averages in parentheses behind a value, and counters such as ``[ 50/1251]``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from harness.logs import patterns
from harness.logs.events import may_tell
from harness.logs.names import TRAIN_WORDS, VAL_WORDS, meaning_of, words_of
from harness.logs.pairs import MEAN, Pair, Row, factor_of, number_of

MAX_SCANNED = 4096
"""Characters of a line of text that are searched: one print of a training program has fewer."""

MAX_SHAPES = 2048
"""Shapes that are remembered: 10 MB at most; a log of one program has some hundred."""

DIGITS = str.maketrans("023456789", "111111111")

DECIMAL_COMMA = re.compile(r"(?<!\d)0,\d")
"""The one thing that a digit decides: ``0,531`` is half of one, ``1,531`` is over a thousand."""

COUNTERS = {"step", "epoch"}
TIMES = {"step_time_s", "data_time_s", "compute_time_s", "elapsed_s"}
SPLITS = TRAIN_WORDS | VAL_WORDS

Span = tuple[int, int]


@dataclass(frozen=True)
class Cell:
    """A number of every line of a shape."""

    key: str
    span: Span
    split: str = ""
    factor: float = 1.0
    inverse: bool = False
    """A rate that is kept as a time."""
    total: Span | None = None
    """Of ``Accuracy: 9855/10000``, the second number."""
    seconds: Span | None = None
    """Of ``1m 31s``, the second number."""

    def pair(self, text: str) -> Pair | None:
        """Return the number of one line; None when it is none after all."""
        value = _float(text[self.span[0] : self.span[1]])
        if value is None or (self.inverse and value <= 0):
            return None
        if self.seconds:
            value = 60 * value + float(text[self.seconds[0] : self.seconds[1]])
        if self.total:
            value /= float(text[self.total[0] : self.total[1]]) or 1.0
        return Pair(self.key, self.factor / value if self.inverse else value * self.factor, self.split)


@dataclass
class Shape:
    """What is the same in all lines of a shape."""

    text: str
    """The first line that had it."""
    cells: list[Cell] = field(default_factory=list)
    counters: list[tuple[Span, Span]] = field(default_factory=list)
    split: str = ""
    others: list[str] = field(default_factory=list)
    stamp: Span | None = None

    def row(self, number: int, text: str) -> Row:
        """Return what one line of this shape says."""
        pairs = [pair for cell in self.cells if (pair := cell.pair(text)) is not None]
        stamp = text[self.stamp[0] : self.stamp[1]] if self.stamp else ""
        return Row(number, pairs, self._batch(text), self.split, self.others, stamp=stamp)

    def _batch(self, text: str) -> tuple[int, int] | None:
        for (a, b), (c, d) in self.counters:
            done, total = int(text[a:b]), int(text[c:d])
            if total > 1 and done <= total:
                return done, total
        return None

    @cached_property
    def is_event(self) -> bool:
        """Whether such lines may tell of a skipped step or of a lost loss in words."""
        return not self.text.lstrip().startswith("{") and may_tell(self.text)

    @cached_property
    def may_be_header(self) -> bool:
        """Whether such a line may be the header of a table: it holds no number."""
        return not self.cells

    @cached_property
    def clean(self) -> str:
        """The line with spaces in place of its time, its rank and its log level: everything else keeps its place."""
        text = patterns.STAMP.sub(_blank, self.text)
        text = patterns.RANK.sub(_blank, text, count=1)
        return patterns.LEVEL.sub(_blank, text)


_SHAPES: dict[tuple[str, bool], Shape] = {}


def shape_of(text: str) -> Shape:
    """Return the shape of a line, from memory when a line before had it."""
    key = (text.translate(DIGITS), "0," in text and DECIMAL_COMMA.search(text) is not None)
    found = _SHAPES.get(key)
    if found is None:
        if len(_SHAPES) >= MAX_SHAPES:
            _SHAPES.clear()
        found = _SHAPES[key] = _analysed(text)
    return found


def _analysed(text: str) -> Shape:
    shape = Shape(text)
    stamp = patterns.STAMP.search(text, 0, patterns.STAMP_COLUMNS)
    shape.stamp = stamp.span() if stamp and ":" in stamp[0] else None
    table = patterns.CELLS.match(text)
    if table:
        _take(shape, table["key"].strip(), table.span("value"))
        return shape
    counted = _read_pairs(shape)
    _read_epoch(shape)
    shape.counters = [
        ((match.start("done") - 1, match.end("done") - 1), (match.start("total") - 1, match.end("total") - 1))
        for match in patterns.COUNTER.finditer(" " + shape.clean)
        if match.start("done") - 1 not in counted
    ]
    _read_bare(shape)
    if patterns.SUMMARY.match(text):
        shape.split = "val"
    return shape


def _read_pairs(shape: Shape) -> set[int]:
    """Read all pairs, and return where the counters stand; words between pairs may say which split follows."""
    end, split, noun, text, counted = 0, "", "", shape.clean, set()
    for match in patterns.PAIR.finditer(text):
        said = patterns.SPLIT_WORD.findall(text, end, match.start()) + patterns.SPLIT_IN_KEY.findall(match["key"])
        split = _split_named(said[-1]) if said else split
        begin = end
        end = match.end("unit") if match["unit"] else match.end("value")
        key = match["key"].strip()
        if key.lower() in SPLITS:
            before = patterns.NOUN.search(text, begin, match.start())
            noun = before[1] if before else noun
            if noun:
                _take(shape, f"{key} {noun}", match.span("value"), split)
            continue
        name = meaning_of(key).name
        noun = "loss" if name == "loss" and meaning_of(key).split else ""
        if name not in COUNTERS and _read_counted(shape, match, split):
            counted.add(match.start("value"))
            continue
        if name in COUNTERS:
            counted.add(match.start("value"))
        _read_pair(shape, match, split)
    return counted


def _read_pair(shape: Shape, match: re.Match[str], split: str) -> None:
    key, unit = match["key"].strip(), (match["unit"] or "").strip().lower()
    meaning = meaning_of(key)
    if not meaning.name or (meaning.name in COUNTERS and unit == "%"):
        shape.others.append(key)
        return
    minutes = patterns.MINUTES.match(shape.clean, match.start("value")) if meaning.name in TIMES else None
    if minutes:
        shape.cells.append(Cell(key, minutes.span(1), meaning.split or split, seconds=minutes.span(2)))
        return
    if _read_both(shape, match):
        return
    shape.split = shape.split or split
    mine = meaning.split or split
    of_total = patterns.OF_TOTAL.match(shape.text, match.end("value")) if meaning.name == "metric" else None
    _take(shape, key, match.span("value"), mine, unit, of_total.span(1) if of_total else None)
    if match["mean"] and meaning.name not in COUNTERS:
        _take(shape, key + MEAN, match.span("mean"), mine, unit)


def _read_both(shape: Shape, match: re.Match[str]) -> bool:
    """Read ``Train/Val loss: 0.5/0.6``: a name of both splits, and a number for each."""
    said = [_split_named(word) for word in words_of(match["key"]) if word in SPLITS]
    second = patterns.SECOND.match(shape.clean, match.end("value"))
    if sorted(said) != ["train", "val"] or not second:
        return False
    noun = " ".join(word for word in words_of(match["key"]) if word not in SPLITS)
    for split, span in zip(said, (match.span("value"), second.span("value")), strict=True):
        _take(shape, f"{split} {noun}", span, split)
    return True


def _read_counted(shape: Shape, match: re.Match[str], split: str) -> bool:
    """Read ``Cost after iteration 100: 0.64``: the first number is a counter, the second belongs to the name."""
    counted = patterns.COUNTED.match(match["key"].strip())
    if not counted or not match["sep"].isspace():
        return False
    _take(shape, "epoch" if counted["counter"].lower().startswith("ep") else "step", match.span("value"))
    key = counted["name"].strip()
    later = patterns.LATER.match(shape.clean, match.end("value"))
    if later and meaning_of(key).name:
        shape.split = shape.split or split
        _take(shape, key, later.span("value"), meaning_of(key).split or split)
    return True


def _read_epoch(shape: Shape) -> None:
    ways = (patterns.MMENGINE, patterns.EPOCH_BEFORE_COUNTER, patterns.EPOCH_OF_TOTAL)
    epoch = next((found for way in ways if (found := way.search(shape.clean))), None)
    if epoch and all(meaning_of(cell.key).name != "epoch" for cell in shape.cells):
        _take(shape, "epoch", epoch.span(epoch.lastindex or 1))


def _read_bare(shape: Shape) -> None:
    """Read the numbers that stand without a name: the speed behind a bar, the round in front of a line."""
    text = shape.clean
    names = {meaning_of(cell.key).name for cell in shape.cells}
    found = patterns.KERAS_STEP.search(text)
    if found:
        _take(shape, "s/step", found.span("value"), shape.split, found["unit"])
    elif bar := patterns.BAR_RATE.search(text):
        inverse = bar["unit"] != "s/it"
        shape.cells.append(Cell("s/it", bar.span("value"), shape.split, inverse=inverse))
    elif "loss" in names and "step_time_s" not in names and (bare := patterns.BARE_TIME.search(text)):
        _take(shape, "step time", bare.span("value"), shape.split, "ms")
    if "throughput" not in names and (rate := patterns.BARE_RATE.search(text)):
        _take(shape, rate["unit"], rate.span("value"), shape.split)
    if "loss" not in names and (average := patterns.AVERAGE_LOSS.search(text)):
        _take(shape, "avg loss", average.span("value"))
    if names and "step" not in names and (leading := patterns.LEADING_STEP.match(shape.text)):
        _take(shape, "step", leading.span("value"))


def _take(shape: Shape, key: str, span: Span, split: str = "", unit: str = "", total: Span | None = None) -> None:
    """Keep a number where its meaning is known."""
    if not meaning_of(key.removesuffix(MEAN)).name and key not in {"s/it", "s/step"}:
        shape.others.append(key)
        return
    if unit in {"it/s", "s/it"}:
        shape.cells.append(Cell("s/it", span, split, inverse=unit == "it/s"))
        return
    shape.cells.append(Cell(key, span, split, factor_of(key.removesuffix(MEAN), unit), total=total))


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return number_of(text)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _split_named(word: str) -> str:
    return "train" if word.lower() in TRAIN_WORDS else "val"
