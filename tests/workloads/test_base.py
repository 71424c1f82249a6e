"""The parts of a workload are checked when it is made."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import IterableDataset

from harness.errors import WorkloadError
from harness.workloads.base import TensorPairs, Workload, as_workload, size_of

PAIRS = TensorPairs(torch.arange(12.0).view(6, 2), torch.arange(6))


def parts(**changes: Any) -> dict[str, Any]:
    """Return the parts of a good workload, some changed."""
    made = {"model": nn.Linear(2, 2), "train_data": PAIRS, "val_data": PAIRS, "loss": max, "metric": min}
    return made | changes


@pytest.mark.parametrize("make", [Workload, dict, SimpleNamespace])
def test_parts_are_accepted_in_any_holder(make: Any) -> None:
    """A workload, a mapping, an object."""
    given = parts(metric_name="accuracy", metric_goal="min", tokens_per_sample=5)
    made = as_workload(make(**given), "here")
    assert all(getattr(made, name) is value for name, value in given.items())


def test_workload_stays_itself() -> None:
    """Nothing is copied."""
    made = Workload(**parts())
    assert as_workload(made, "here") is made


@pytest.mark.parametrize("name", ["model", "train_data", "val_data", "loss", "metric"])
@pytest.mark.parametrize("make", [dict, SimpleNamespace])
def test_missing_part_is_named(name: str, make: Any) -> None:
    """None is missing too."""
    for given in (parts(**{name: None}), {k: v for k, v in parts().items() if k != name}):
        with pytest.raises(WorkloadError, match=f"^here: the workload lacks {name}; it needs model, train_data,"):
            as_workload(make(**given), "here")


class Stream(IterableDataset[Any]):
    """Has a length and, from its base class, an index that raises."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 5


@pytest.mark.parametrize("dataset", [Stream(), iter([1]), 5, {1, 2}], ids=["stream", "iterator", "number", "set"])
@pytest.mark.parametrize("name", ["train_data", "val_data"])
def test_data_that_has_no_index_is_refused(name: str, dataset: Any) -> None:
    """The order of a run is made of indices."""
    with pytest.raises(WorkloadError, match=f"{name} must have a length and an index"):
        Workload(**parts(**{name: dataset}))


def test_unknown_part_of_a_mapping_is_named() -> None:
    """A typing error in an optional part would otherwise be silence."""
    with pytest.raises(WorkloadError, match=r"^here: unknown parts metric_gaol; known are: model,"):
        as_workload(parts(metric_gaol="min"), "here")


def test_other_attributes_of_an_object_are_its_own() -> None:
    """An object may do more than hold the parts."""
    assert as_workload(SimpleNamespace(**parts(), notes="mine"), "here").metric_name == "metric"


@pytest.mark.parametrize(("tokens", "unit"), [(0, "samples/s"), (7, "tokens/s")])
def test_unit_follows_the_tokens(tokens: int, unit: str) -> None:
    """Of throughput."""
    assert Workload(**parts(tokens_per_sample=tokens)).unit == unit


def test_batch_of_pairs_is_one_index_operation() -> None:
    """The same as its samples stacked."""
    inputs, targets = PAIRS[torch.tensor([4, 0, 4])]
    assert torch.equal(inputs, torch.stack([PAIRS[n][0] for n in (4, 0, 4)]))
    assert targets.tolist() == [4, 0, 4]
    assert size_of(PAIRS) == len(PAIRS) == 6
