"""Which random numbers does a run draw? Those of its seed, from every generator that a workload may use."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

NUMPY_SEEDS = 2**32
"""numpy's generator takes seeds below this one."""


def seed_all(seed: int) -> None:
    """Seed the default generators of torch, numpy and Python."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % NUMPY_SEEDS)  # noqa: NPY002  a user's dataset draws from the default one


def generator_states() -> dict[str, Any]:
    """Return the states of the default generators, as data that a checkpoint can hold."""
    name, key, *rest = np.random.get_state()  # noqa: NPY002
    states: dict[str, Any] = {"cpu": torch.get_rng_state(), "python": random.getstate()}
    states["numpy"] = (name, [int(word) for word in key], *rest)
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def set_generators(states: dict[str, Any]) -> None:
    """Set the default generators."""
    torch.set_rng_state(states["cpu"])
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])  # noqa: NPY002
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])


@contextmanager
def set_aside(seed: int) -> Iterator[None]:
    """Draw from ``seed`` inside, and leave the host's generators as they were."""
    states = generator_states()
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        set_generators(states)
