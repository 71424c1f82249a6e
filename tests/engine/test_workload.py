"""A spec's workload is found, built from the seed alone, and known by its data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from harness.engine.workload import WORKLOADS, data_hash, explained, is_user_workload, load_workload
from harness.errors import WorkloadError
from harness.workloads.base import TensorPairs, Workload
from tests.running import HEAD


@pytest.fixture
def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a workload whose model and data depend on torch's generator."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    code = "def make(size, seed):\n    return parts(train_data=TensorPairs(torch.rand(9, 8), torch.arange(9)))\n"
    (tmp_path / "mine.py").write_text(HEAD + code)
    return f"{tmp_path / 'mine.py'}:make"


def pairs(*targets: int) -> TensorPairs:
    """Return a small dataset."""
    return TensorPairs(torch.ones(len(targets), 2), torch.tensor(targets))


def workload(train: Any, val: Any) -> Workload:
    """Return a workload with this data."""
    return Workload(model=nn.Linear(2, 2), train_data=train, val_data=val, loss=nn.functional.mse_loss, metric=torch.eq)


class Noisy(Dataset[Any]):
    """A dataset that augments itself."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.rand(2), index


@pytest.mark.parametrize(
    ("text", "users"),
    [("digits_mlp", False), ("mine.py:make", True), ("./x:make", True), ("a/b", True), ("mine", False), ("", False)],
)
def test_a_path_is_a_users_workload(text: str, users: bool) -> None:
    """Anything with a slash or .py."""
    assert is_user_workload(text) == users


def test_equal_seeds_build_equal_workloads(name: str) -> None:
    """Weights and data; another seed builds others."""
    one, same, other = (load_workload(name, "tiny", seed) for seed in (1, 1, 2))
    assert torch.equal(one.model.weight, same.model.weight)  # type: ignore[arg-type]
    assert not torch.equal(one.model.weight, other.model.weight)  # type: ignore[arg-type]
    assert data_hash(one) == data_hash(same) != data_hash(other)


@pytest.mark.parametrize("builtin", WORKLOADS.names())
def test_built_in_data_does_not_depend_on_the_seed(builtin: str) -> None:
    """Runs with different seeds are compared on the same data."""
    one, other = (load_workload(builtin, "tiny", seed) for seed in (1, 2))
    assert data_hash(one) == data_hash(other)
    assert any(not torch.equal(p, q) for p, q in zip(one.model.parameters(), other.model.parameters(), strict=True))


def test_hash_sees_every_part_of_the_data() -> None:
    """Values, their order, their number, the split, and which is which."""
    kinds = [
        workload(pairs(1, 2), pairs(3)),
        workload(pairs(2, 1), pairs(3)),
        workload(pairs(1, 2), pairs(4)),
        workload(pairs(1), pairs(2, 3)),
        workload(pairs(3), pairs(1, 2)),
        workload(pairs(1, 2, 3), pairs(3)),
    ]
    assert len({data_hash(kind) for kind in kinds}) == len(kinds)


def test_hash_of_a_dataset_of_any_items_is_stable() -> None:
    """Arrays, numbers, text, dicts and half-precision tensors, by value and not by where they lie in memory."""

    def items() -> list[tuple[dict[str, object], int]]:
        made = {"a": torch.ones(2, dtype=torch.bfloat16), "b": torch.tensor(5).numpy(), "c": ("x", 1.5, None)}
        return [(made | {"e": torch.eye(2).to_sparse(), "d": torch.ones(3).numpy()}, n) for n in range(3)]

    assert data_hash(workload(items(), items())) == data_hash(workload(items(), items()))


def test_hash_of_random_data_is_stable_and_moves_no_generator() -> None:
    """A dataset that augments itself has a hash too, and hashing it changes no training."""
    made = workload(Noisy(), Noisy())
    before = torch.get_rng_state()
    assert data_hash(made) == data_hash(made)
    assert torch.equal(before, torch.get_rng_state())


def test_error_of_a_built_in_workload_is_our_own() -> None:
    """It keeps its kind and its traceback."""
    with pytest.raises(ZeroDivisionError), explained("digits_mlp"):
        raise ZeroDivisionError


def test_error_outside_the_users_file_is_our_own(name: str) -> None:
    """Although a user's workload runs."""
    with pytest.raises(ZeroDivisionError), explained(name):
        raise ZeroDivisionError


def test_error_in_the_users_file_is_his(name: str) -> None:
    """Told with its line."""
    loss = load_workload(name, "tiny", 0).loss
    with pytest.raises(WorkloadError, match=r"mine\.py:make: AttributeError: .*\(mine\.py, line 19\)"), explained(name):
        loss(5, 5)
