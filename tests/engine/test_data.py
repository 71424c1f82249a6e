"""Each rank sees its share of the data in an order that the seed decides, and can start in its middle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from harness.config import RunSpec
from harness.engine.data import Batches, batching, moved, validation_batches
from harness.errors import WorkloadError
from harness.workloads.base import TensorPairs, Workload


def numbered(count: int, augment: Any = None) -> Workload:
    """Return a workload whose inputs are their own numbers."""
    pairs = TensorPairs(torch.arange(count), torch.arange(count) * 10)
    return Workload(
        model=nn.Linear(1, 1),
        train_data=pairs,
        val_data=pairs,
        loss=nn.functional.mse_loss,
        metric=torch.eq,
        augment=augment,
    )


def drawn(
    count: int, spec: RunSpec, *, rank: int = 0, world_size: int = 1, start: int = 0, size: int = 100
) -> list[list[int]]:
    """Return the sample numbers of ``count`` batches."""
    batches = Batches(numbered(size), spec, rank, world_size)
    batches.start_at(start)
    found = []
    for inputs, targets in islice(iter(batches), count):
        assert torch.equal(targets, inputs * 10)
        found.append(inputs.tolist())
    return found


def flat(lists: list[list[int]]) -> list[int]:
    """Return the numbers of all lists."""
    return list(chain.from_iterable(lists))


def test_equal_seeds_draw_equal_batches() -> None:
    """And another seed another order."""
    spec = RunSpec(batch_size=8, seed=1)
    assert drawn(30, spec) == drawn(30, spec)
    assert drawn(30, spec) != drawn(30, RunSpec(batch_size=8, seed=2))


def test_epoch_draws_each_sample_at_most_once() -> None:
    """Twelve full batches of 8 out of 100; the next epoch has another order."""
    batches = drawn(24, RunSpec(batch_size=8))
    first, second = flat(batches[:12]), flat(batches[12:])
    assert max(Counter(first).values()) == max(Counter(second).values()) == 1
    assert (len(first), first == second) == (96, False)


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_share_an_epoch(world_size: int) -> None:
    """No two ranks see the same sample, apart from those that even the shares out."""
    shares = [flat(drawn(4, RunSpec(batch_size=8), rank=n, world_size=world_size)) for n in range(world_size)]
    assert max(Counter(flat(shares)).values()) == 1


@pytest.mark.parametrize("start", [0, 1, 5, 11, 12, 13, 24, 29])
def test_start_in_the_middle_goes_on_as_if_it_had_never_stopped(start: int) -> None:
    """Also exactly between two epochs."""
    spec = RunSpec(batch_size=8)
    assert drawn(30 - start, spec, start=start) == drawn(30, spec)[start:]


def test_epochs_are_counted_from_one() -> None:
    """The epoch of a batch, not of the next one."""
    batches = Batches(numbered(100), RunSpec(batch_size=8), 0, 1)
    seen = [batches.epoch]
    for _ in islice(iter(batches), 25):
        seen.append(batches.epoch)  # noqa: PERF401
    assert seen == [1] + [1] * 12 + [2] * 12 + [3]


def test_batch_beyond_the_data_is_refused() -> None:
    """A loader that drops the last batch would go round for ever without one."""
    with pytest.raises(WorkloadError, match=r"batch_size=64 is more than one rank's 50 training samples"):
        Batches(numbered(100), RunSpec(batch_size=64), 0, 2)
    assert len(drawn(3, RunSpec(batch_size=50), world_size=2)) == 3


def test_augmentation_is_refused_where_there_is_none() -> None:
    """A flag without an effect would be a lie in the record."""
    with pytest.raises(WorkloadError, match="--augment: the workload digits_mlp has no augment part"):
        Batches(numbered(100), RunSpec(augment=True), 0, 1)


def test_augmentation_depends_on_seed_rank_and_position_alone() -> None:
    """A resumed run augments as the uninterrupted one, and ranks differ."""

    def noise(inputs: Tensor, generator: torch.Generator) -> Tensor:
        return inputs + torch.rand((), generator=generator)

    def shifts(seed: int, rank: int, start: int) -> list[float]:
        spec = RunSpec(batch_size=8, augment=True, seed=seed)
        batches = Batches(numbered(100, noise), spec, rank, 2)
        batches.start_at(start)
        return [(inputs - targets / 10).mean().item() for inputs, targets in islice(iter(batches), 10 - start)]

    whole = shifts(1, 0, 0)
    assert len(set(whole)) == 10
    assert shifts(1, 0, 4) == whole[4:]
    assert len({shifts(1, 1, 0)[0], shifts(2, 0, 0)[0], whole[0]}) == 3


def test_loading_leaves_the_default_generator_alone() -> None:
    """Otherwise each new epoch, and each resume, would move the dropout."""
    workload = numbered(100)
    before = torch.get_rng_state()
    assert len(list(islice(iter(Batches(workload, RunSpec(batch_size=8), 0, 1)), 30))) == 30
    assert len(list(validation_batches(workload.val_data, 4, 0, 1))) == 25
    assert torch.equal(before, torch.get_rng_state())


def test_workers_of_each_rank_draw_from_a_seed_of_their_own() -> None:
    """What a dataset draws in a worker would otherwise be the same on every rank; one rank alone has the run's seed."""

    def seed(rank: int, world_size: int) -> int:
        spec = RunSpec(batch_size=8, seed=5, num_workers=1)
        loader = Batches(numbered(100), spec, rank, world_size).loader
        assert isinstance(loader, DataLoader)
        return int(loader.generator.initial_seed())

    assert seed(0, 1) == 5
    assert len({seed(0, 2), seed(1, 2)}) == 2


@pytest.mark.parametrize(
    ("dataset", "pinned"),
    [
        (TensorPairs(torch.ones(9, 2), torch.ones(9)), True),
        (TensorPairs(torch.ones(9, 2, device="meta"), torch.ones(9)), False),
        (TensorPairs(torch.eye(9).to_sparse(), torch.ones(9)), False),
        ([(torch.ones(2), torch.ones(1))] * 9, False),
    ],
    ids=["on the host", "on a device", "sparse", "of a user"],
)
def test_only_dense_data_on_the_host_are_pinned(dataset: Any, pinned: bool) -> None:
    """Pinning anything else would end a run that works without it; and for a CPU nothing is pinned."""
    workload = replace(numbered(9), train_data=dataset)
    for wanted in (True, False):
        loader = Batches(workload, RunSpec(batch_size=3), 0, 1, pinned=wanted).loader
        assert getattr(loader, "pin_memory", False) == (pinned and wanted)


@pytest.mark.parametrize("rank", [0, 1])
def test_data_in_memory_need_no_loader(rank: int) -> None:
    """The batches are those that torch's DataLoader makes, in the same order."""
    workload = numbered(50)
    direct = Batches(workload, RunSpec(batch_size=8), rank, 2)
    assert not isinstance(direct.loader, DataLoader)
    how = batching(workload.train_data, 8, direct.sampler, drop_last=True)
    both = zip(direct.loader, DataLoader(workload.train_data, **how), strict=True)
    assert [torch.equal(one, other) for (one, _), (other, _) in both] == [True] * 3


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 7, 8])
def test_validation_sees_each_sample_once(count: int, world_size: int) -> None:
    """Also the last, smaller batch, and with ranks that have none."""
    data = numbered(count).val_data
    seen = [
        inputs.tolist() for rank in range(world_size) for inputs, _ in validation_batches(data, 3, rank, world_size)
    ]
    assert sorted(flat(seen)) == list(range(count))


class Pair(NamedTuple):
    """Two inputs."""

    a: Any
    b: Any


class Bag(Mapping[str, Any]):
    """A mapping that is no dict, as tokenizers return it."""

    def __init__(self, **items: Any) -> None:
        self.items_ = items

    def __getitem__(self, key: str) -> Any:
        return self.items_[key]

    def __iter__(self) -> Any:
        return iter(self.items_)

    def __len__(self) -> int:
        return len(self.items_)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x,
        lambda x: (x, [x, {"k": x}]),
        lambda x: Pair(x, [x]),
        lambda x: {"a": x, "b": ("text", 5, None)},
    ],
    ids=["tensor", "nested", "named tuple", "dict"],
)
def test_nested_tensors_are_moved_and_the_rest_is_kept(make: Any) -> None:
    """The meta device stands for a GPU."""
    wanted = make(torch.ones(2, device="meta"))
    found = moved(make(torch.ones(2)), torch.device("meta"))
    assert (type(found), repr(found)) == (type(wanted), repr(wanted))


def test_mapping_that_is_no_dict_is_moved() -> None:
    """It comes back as a dict, which goes to the model as keywords."""
    found = moved(Bag(a=torch.ones(2)), torch.device("meta"))
    assert found["a"].device.type == "meta"
