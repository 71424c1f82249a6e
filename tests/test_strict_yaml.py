"""A YAML file of a stranger is plain, typed data or one sentence that names the file and the place."""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.errors import UsageError
from harness.strict_yaml import MAX_BYTES, parse_yaml, read_yaml, typed


class Point(msgspec.Struct, forbid_unknown_fields=True):
    """Two numbers and a list of names."""

    x: int
    y: float = 0.0
    names: list[str] = []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("off", "off"),
        ("no", "no"),
        ("Yes", "Yes"),
        ("on", "on"),
        ("true", True),
        ("false", False),
        ("True", "True"),
        ("null", None),
        ("~", None),
        ("", None),
        ("7", 7),
        ("-7", -7),
        ("+7", 7),
        ("1e-3", 0.001),
        ("1E3", 1000.0),
        ("-.5", -0.5),
        ("5.", 5.0),
        ("010", "010"),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        ("0b11", "0b11"),
        ("1:30", "1:30"),
        ("1.2.3", "1.2.3"),
        ("2020-01-01", "2020-01-01"),
        ("'7'", "7"),
        (".inf", math.inf),
        ("-.inf", -math.inf),
    ],
)
def test_plain_scalars_mean_what_yaml_1_2_says(text: str, value: Any) -> None:
    """A word stays a word, a number is a number as Python writes it, and nothing is a date or sexagesimal."""
    found = parse_yaml(f"key: {text}", "here")["key"]
    assert (found, type(found)) == (value, type(value))


def test_nan_is_a_number() -> None:
    """What bounds refuse must first be read."""
    assert math.isnan(parse_yaml("key: .nan", "here")["key"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &x 1\nb: *x", "anchors and aliases are not accepted"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", "anchors and aliases are not accepted"),
        ("x: 1\nx: 2", "the key 'x' is given twice"),
        ("a: {x: 1, x: 2}", "the key 'x' is given twice"),
        ("1: 2", "the key 1 is not text"),
        ("true: 2", "the key True is not text"),
        ("? [1]\n: 2", "the key [1] is not text"),
        ("<<: {x: 1}", "line 1, column 1: '<<' is not accepted; all names are expected to be written out"),
        ("!!python/object/apply:os.system ['false']", "line 1, column 1: the tag 'tag:yaml.org,2002:python/object/"),
        ("a: !!timestamp x", "the tag 'tag:yaml.org,2002:timestamp' is not accepted; plain values are expected"),
        ("a: b: c", "line 1, column 5: a ': ' that is not expected; names begin in one column, and a text that"),
        ("a: 1\n  b: 2", "line 2, column 4: a ': ' that is not expected"),
        ("\ta: 1", "line 1, column 1: a tab; spaces are expected"),
        ("a: [1\nb: 2", "line 1, column 4: the list that '[' opens is not closed; ',' or ']' is expected"),
        ("a: {b: 1", "line 1, column 4: the mapping that '{' opens is not closed; ',' or '}' is expected"),
        ("x: 1\na: 'b\nc: 1", "line 2, column 4: the text that this quote opens is not closed; the same quote"),
        ("a: 1\nb", "line 2, column 1: a name without a value; 'name: value' is expected"),
        ("a:\n  b: 1\n c: 2", "line 3, column 2: this does not belong to what is before it; the names of one level"),
        ("a: ]", "line 1, column 4: no value; 'name: value' is expected"),
        ("a: %x", "line 1, column 4: '%' cannot begin a value; a text that begins with it is put into quotes"),
        ('a: "\\q"', "line 1, column 4: \\q means nothing; a backslash in double quotes is written twice"),
        ("a: |x", "line 1, column 5: expected chomping or indentation indicators, but found 'x'"),
        ("a: 1\n---\nb: 2", "line 2, column 1: '---' begins a second document; one is expected"),
        ("b: 1\na: \x00", "line 2, column 4: the character '\\x00'; printable text is expected"),
        ("a: " + "9" * 5000, "digits"),
        ("[" * 5000, "nested too deeply"),
        ("{a: " * 5000, "nested too deeply"),
    ],
)
def test_what_is_not_plain_data_is_refused(text: str, said: str) -> None:
    """Bombs, code, duplicate keys and broken syntax end in one line that names the origin."""
    with pytest.raises(UsageError) as caught:
        parse_yaml(text, "key.yaml")
    message = str(caught.value)
    assert message.startswith("key.yaml: ")
    assert said in message
    assert "\n" not in message


def test_place_of_a_duplicate_key_is_that_of_the_second_one() -> None:
    """The reader is led to the line that has to go."""
    with pytest.raises(UsageError, match="line 3"):
        parse_yaml("x: 1\ny: 2\nx: 3", "here")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe\x00", "not UTF-8 text (byte 0)"),
        (b"a: \x00\x01", "not a YAML file that is accepted"),
        (b"x: " + b"a" * MAX_BYTES, f"at most {MAX_BYTES} bytes"),
    ],
    ids=["utf-16", "binary", "huge"],
)
def test_file_that_is_no_yaml_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    """What a stranger calls YAML may be anything."""
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_yaml(path)
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "said"), [("absent.yaml", "No such file"), (".", "Is a directory"), ("absent.yaml/x", "No such file")]
)
def test_path_that_cannot_be_read_is_named(tmp_path: Path, name: str, said: str) -> None:
    """The operating system's own reason is part of the sentence."""
    with pytest.raises(UsageError, match=said):
        read_yaml(tmp_path / name)


def test_endless_file_is_not_read_to_its_end() -> None:
    """A device claims a size of 0 and never ends."""
    with pytest.raises(UsageError, match="at most"):
        read_yaml(Path("/dev/zero"))


def test_pipe_is_read(tmp_path: Path) -> None:
    """A shell's ``<(command)`` is a pipe."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=("x: 1\n",))
    writer.start()
    assert read_yaml(path) == {"x": 1}
    writer.join()


def test_many_keys_take_no_quadratic_time() -> None:
    """A file of the accepted size with the most keys it can hold is read as fast per key as a small one."""
    many = "\n".join(f"{n:x}: 1" for n in range(20_000))
    assert len(parse_yaml(many.replace(":", "k:"), "here")) == 20_000


def test_byte_order_mark_is_no_part_of_the_first_key() -> None:
    """Some editors write one."""
    assert parse_yaml("\ufeffx: 1", "here") == {"x": 1}


def test_typed_data_is_converted() -> None:
    """Plain data becomes the type that was asked for."""
    assert typed({"x": 1, "y": 2, "names": ["a"]}, Point, "here") == Point(1, 2.0, ["a"])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"x": "1"}, "here: x: expected int, got str"),
        ({"x": True}, "here: x: expected int, got bool"),
        ({"x": 1, "names": ["a", 2]}, "here: names[1]: expected str, got int"),
        ({}, "here: object missing required field x"),
        ({"x": 1, "z": 2}, "here: object contains unknown field z"),
        ([1], "here: expected object, got array"),
    ],
)
def test_wrong_type_names_its_path(data: Any, said: str) -> None:
    """The sentence leads to the first wrong value."""
    with pytest.raises(UsageError) as caught:
        typed(data, Point, "here")
    assert str(caught.value) == said


def test_texts_are_converted_where_that_is_asked_for() -> None:
    """What comes from a command line is text."""
    assert typed({"x": "1", "y": "1e-3"}, Point, "here", strict=False) == Point(1, 0.001)
