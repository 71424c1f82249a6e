"""Each exception that a user can act on has an exit code, and says what it means."""

from __future__ import annotations

import pytest

from harness import errors
from harness.errors import HarnessError, NotComparable


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("HarnessError", 1),
        ("UsageError", 2),
        ("WorkloadError", 2),
        ("NotComparable", 2),
        ("EvidenceError", 2),
        ("DeviceError", 2),
        ("LaunchError", 1),
    ],
)
def test_exit_code_is_the_one_in_the_tree(name: str, code: int) -> None:
    """The module's own drawing says the same."""
    assert errors.__doc__ is not None
    drawn = next(line for line in errors.__doc__.splitlines() if f" {name} " in f" {line.strip(' |`-')} ")
    assert f" {code} " in drawn
    assert getattr(errors, name).exit_code == code


def test_tree_is_complete() -> None:
    """Every exception of the module is one of ours."""
    found = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(found) == 7
    assert all(issubclass(kind, HarnessError) for kind in found)


def test_runs_that_cannot_be_compared_name_every_difference() -> None:
    """One line each."""
    error = NotComparable(["lr: 0.1 and 0.2", "seed: 1 and 2"])
    assert str(error) == "not comparable: the runs also differ in lr: 0.1 and 0.2; seed: 1 and 2"
    assert error.differences == ["lr: 0.1 and 0.2", "seed: 1 and 2"]
