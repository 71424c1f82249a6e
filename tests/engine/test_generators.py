"""All generators that a workload may draw from are seeded, kept and brought back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from harness.engine.generators import generator_states, seed_all, set_aside, set_generators


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    states = generator_states()
    yield
    set_generators(states)


def draw() -> tuple[float, float, float]:
    """Return one number from each generator."""
    return torch.rand(()).item(), float(np.random.rand()), random.random()  # noqa: NPY002


def test_equal_seeds_draw_equal_numbers() -> None:
    """From torch, numpy and Python; another seed draws others from each."""
    drawn = []
    for seed in (1, 1, 2):
        seed_all(seed)
        drawn.append(draw())
    assert drawn[0] == drawn[1]
    assert all(one != other for one, other in zip(drawn[0], drawn[2], strict=True))


def test_largest_seed_of_the_last_rank_is_a_seed() -> None:
    """The generator of numpy takes 32 bits only."""
    seed_all(2**32 - 1 + 8)
    assert draw() != draw()


def test_states_go_through_a_checkpoint(tmp_path: Path) -> None:
    """As data that is read without executing anything."""
    torch.save(generator_states(), tmp_path / "states.pt")
    first = draw()
    set_generators(torch.load(tmp_path / "states.pt", weights_only=True))
    assert draw() == first


def test_what_is_drawn_aside_moves_nothing() -> None:
    """The same numbers each time inside, and the own ones outside."""
    seed_all(5)
    expected = draw()
    seed_all(5)
    inside = []
    for _ in range(2):
        with set_aside(0):
            inside.append(draw())
    assert inside[0] == inside[1]
    assert draw() == expected
