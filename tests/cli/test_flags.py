"""Is a wrong command line one sentence that says what was given and what is accepted?"""

from __future__ import annotations

import pytest

from harness.cli.flags import Flags, one_of, whole
from harness.errors import UsageError


def parser() -> Flags:
    """Return a command line with one flag of each sort."""
    flags = Flags("tool", "Does something.")
    flags.add_argument("place", metavar="RUN")
    flags.add_argument("--kind", type=one_of("cpu", "cuda"))
    flags.add_argument("--count", type=whole(1, 100))
    flags.add_argument("--json", action="store_true")
    return flags


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "RUN is missing"),
        ("a b", "unexpected word 'b', accepted are RUN and flags"),
        ("a --jsn", "unknown flag --jsn (did you mean --json?)"),
        ("--knd=cpu --zzz", "unknown flag --knd (did you mean --kind?), --zzz"),
        ("a -q", "unknown flag -q"),
        ("a --js", "unknown flag --js (did you mean --json?)"),
        ("a --json=1", "--json: got '1', but it takes no value"),
        ("a --kind", "--kind: a value is missing; one that begins with - is given as --kind=VALUE"),
        ("a --kind tpu", "--kind: got 'tpu', accepted are cpu, cuda"),
        ("a --count 0", "--count: got '0', a whole number from 1 to 100 is accepted"),
        ("a --count 101", "--count: got '101', a whole number from 1 to 100 is accepted"),
        ("a --count -1", "--count: got '-1', a whole number from 1 to 100 is accepted"),
    ],
)
def test_mistake_is_a_sentence(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is printed above it, and it says where there is more."""
    with pytest.raises(UsageError) as caught:
        parser().read(words.split())
    assert str(caught.value) == f"{said}; tool --help lists what is accepted"
    assert capsys.readouterr() == ("", "")


def test_number_without_end_is_refused() -> None:
    """Python itself would refuse to read it, in other words."""
    with pytest.raises(UsageError, match="a whole number from 1 to 100 is accepted"):
        parser().read(["a", "--count", "9" * 9999])


def test_good_words_are_read() -> None:
    """What follows -- is no flag."""
    found = parser().read(["--kind=cuda", "--count", "100", "--json", "--", "--run"])
    assert (found.place, found.kind, found.count, found.json) == ("--run", "cuda", 100, True)


def test_who_asks_for_help_gets_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Also beside a flag that there is not."""
    with pytest.raises(SystemExit) as stop:
        parser().read(["--jsn", "--help"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith("usage: tool")
