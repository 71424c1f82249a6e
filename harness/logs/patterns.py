"""How do programs write a named number? The regular expressions of one line of text."""

from __future__ import annotations

import re

from harness.logs.names import COUNTERS, TRAIN_WORDS, VAL_WORDS

NUMBER = (
    r"[-+]?(?:0,\d+(?=[;\s)]|$)|\d+,\d{1,2}(?=;|\s|$)|\d{1,3}(?:,\d{3})+(?:\.\d+)?"
    r"|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)"
)
NOT_FINITE = r"[-+]?(?:nan|inf(?:inity)?)(?![A-Za-z]|\s+iterations)"
UNIT = r"(?:\s?(?:ms|us|s/it|it/s|secs?|seconds|min|s|h|[kKMGT]i?B|k|K|M|%|G)(?![\w/]|\s*[:=]))"

PAIR = re.compile(
    r"(?<![A-Za-z_])(?P<key>[A-Za-z_][\w./@%\-]{0,80}"
    r"(?:[ ](?!-)[A-Za-z_@(][\w./@%\-]{0,80}\)?){0,6}?(?:\s?\([\w%/ ]{1,12}\))?)"
    r"['\"]?(?P<sep>\s{0,80}[:=]\s{0,80}|\s{1,80})"
    r"(?:(?:tensor|array|np\.float\d\d|np\.float_)\()?[\[('\"]*\s{0,80}"
    rf"(?P<value>{NOT_FINITE}|{NUMBER})(?!\d|:\d|\.\d|[-/]\d+[-/]|[-/]\d+:\d)(?P<unit>{UNIT})?"
    r"(?:(?:,\s*[\d.]+/s)?\s*\(\s*(?P<mean>" + NOT_FINITE + "|" + NUMBER + r")s?(?:,\s*[\d.]+/s)?\s*\))?",
    re.IGNORECASE,
)

LATER = re.compile(rf"(?:/\d+)?[)\]]?\s*[:=]\s*(?P<value>{NOT_FINITE}|{NUMBER})(?![\d/]|[.:]\d)", re.IGNORECASE)
"""What follows the counter of ``Cost after iteration 100: 0.64``: the number that belongs to the name before it."""

COUNTED = re.compile(
    rf"^(?P<name>.*?)[\s_-]+(?:after|at|for|in|of)?\s*\b(?P<counter>{'|'.join(COUNTERS)}|iteration|iter)$",
    re.IGNORECASE,
)
"""A name that ends with what is counted."""

OF_TOTAL = re.compile(r"/(\d+)(?![\d/])")

MINUTES = re.compile(r"(\d+)\s?m(?:in)?\s?(\d+(?:\.\d+)?)\s?s\b")
"""``1m 31s``: a time of two numbers."""

SECOND = re.compile(rf"\s?[/|]\s?(?P<value>{NOT_FINITE}|{NUMBER})(?![\d/]|[.:]\d)", re.IGNORECASE)
"""What follows the first number of ``Train/Val loss: 0.5/0.6``."""

CELLS = re.compile(
    rf"^\s*\|\s*(?P<key>[A-Za-z][\w ./@%-]*?)\s*\|\s*(?P<value>{NOT_FINITE}|{NUMBER})\s*\|?\s*$", re.IGNORECASE
)
"""A table of two columns, the name and the number."""

COUNTER = re.compile(r"[\[(| ]\s*(?P<done>\d+)\s*/\s*(?P<total>\d+)(?![\d/.])")

KERAS_STEP = re.compile(r"(?P<value>\d+(?:\.\d+)?)(?P<unit>us|ms|s| ?secs?)/(?:step|sample|batch|iter)\b")

BAR_RATE = re.compile(r"(?P<value>\d+(?:\.\d+)?)\s?(?P<unit>it/s|s/it|batch/s|steps?/s)\b")

BARE_TIME = re.compile(r"[|,]\s*(?P<value>\d+(?:\.\d+)?)\s?(?P<unit>ms)\s*(?=[|,]|$)")
"""``| 3072.93 ms |``: a time without a name in a line of a step."""

BARE_RATE = re.compile(
    rf"(?<![\w.,/])(?P<value>{NUMBER})\s?(?P<unit>(?:tok|toks|tokens|samples|examples|img|imgs|images)/s(?:ec)?)\b"
)

AVERAGE_LOSS = re.compile(rf"(?<![\w.])(?P<value>-?nan|{NUMBER}) avg loss\b")
"""darknet writes the number before the name."""

LEADING_STEP = re.compile(r"^\s*\[(?P<value>\d+)\]\s(?=\s*[A-Za-z])")
"""``[12]  train-logloss:0.3``: boosting counts its rounds so."""

STAMP = re.compile(
    r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?"
    r"|\b\d{1,2}/\d{1,2}/\d{2,4}\b|\b[IWEF]\d{4}(?= )|\b\d{4}-\d\d-\d\d\b"
)

STAMP_COLUMNS = 80
"""Characters of a line within which the time of the line stands; what comes later is a duration or an end."""

RANK = re.compile(
    r"^\s*(?:\[?(?:rank|default|worker)\s*\d+\]?\s*[:|]\s*|\(\w+ pid=\d+[^)]*\)\s*|\[?\d{1,4}\]?:\s+(?=\D))+",
    re.IGNORECASE,
)

LEVEL = re.compile(r"\b(?:INFO|DEBUG|WARNING|NOTICE)\b")

_SPLITS = "|".join(sorted(TRAIN_WORDS | VAL_WORDS))
SPLIT_WORD = re.compile(rf"(?<![A-Za-z_./-])({_SPLITS})(?![A-Za-z./-])", re.IGNORECASE)
SPLIT_IN_KEY = re.compile(rf"(?<![A-Za-z_./-])({_SPLITS})(?![A-Za-z_./-])", re.IGNORECASE)
"""The same within a key, where the word of ``val_loss`` belongs to the name and is read with it."""

EPOCH_BEFORE_COUNTER = re.compile(
    r"\b(?:train|test|val|valid|eval|validate|epoch)\w*:?\s*\[?(\d+)\]?:?\s*(?=[\[(]\s*\d+/)", re.IGNORECASE
)

EPOCH_OF_TOTAL = re.compile(r"\[\s*(\d+)/\d+\]\s*\[\s*\d+/\d+\]")
"""``[3/300][200/1251]``: the epoch and the batch."""

NOUN = re.compile(r"(?<![A-Za-z])(loss|acc|accuracy|ppl|perplexity|error)\W{1,3}$", re.IGNORECASE)
"""What stands before ``train=0.5, val=0.6``."""

MMENGINE = re.compile(r"\bEpoch\s*\((train|val|test)\)\s*\[(\d+)\]", re.IGNORECASE)

SUMMARY = re.compile(r"^\s*\*\s+\w+@")
""" `` *   Acc@1 74.1``: the ImageNet example tells its validation so."""
