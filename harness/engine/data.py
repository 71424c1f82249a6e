"""In which order does a rank see the training data? The same for equal seeds, also after a resume."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from harness.config import RunSpec
from harness.engine.callouts import call_augment, pairs
from harness.errors import WorkloadError
from harness.workloads.base import TensorPairs, Workload, size_of


class ResumableSampler(DistributedSampler[Any]):
    """A DistributedSampler whose current epoch can start in the middle."""

    start = 0

    def __iter__(self) -> Iterator[Any]:
        indices = list(super().__iter__())
        yield from indices[self.start :]


class Batches:
    """Training batches without end; the position is known from the number of batches drawn."""

    def __init__(self, workload: Workload, spec: RunSpec, rank: int, world_size: int, *, pinned: bool = False) -> None:
        self.augment = workload.augment if spec.augment else None
        if spec.augment and workload.augment is None:
            raise WorkloadError(f"--augment: the workload {spec.workload} has no augment part")
        self.sampler = ResumableSampler(
            workload.train_data, num_replicas=world_size, rank=rank, shuffle=True, seed=spec.seed, drop_last=False
        )
        self.batch_size, self.seed, self.drawn = spec.batch_size, spec.seed * world_size + rank, 0
        self.loader = make_loader(workload.train_data, spec, self.sampler, seed=self.seed, pinned=pinned)
        self.per_epoch = len(self.sampler) // spec.batch_size
        if self.per_epoch == 0:
            raise WorkloadError(
                f"batch_size={spec.batch_size} is more than one rank's {len(self.sampler)} training samples"
            )

    @property
    def epoch(self) -> int:
        """Epochs that have begun, from 1."""
        return max(0, self.drawn - 1) // self.per_epoch + 1

    def start_at(self, drawn: int) -> None:
        """Continue after ``drawn`` batches."""
        self.drawn = drawn

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        while True:
            epoch, done = divmod(self.drawn, self.per_epoch)
            self.sampler.set_epoch(epoch)
            self.sampler.start = done * self.batch_size
            for inputs, targets in pairs(self.loader):
                self.drawn += 1
                yield self._augmented(inputs), targets

    def _augmented(self, inputs: Any) -> Any:
        if self.augment is None:
            return inputs
        return call_augment(self.augment, inputs, torch.Generator().manual_seed((self.seed << 20) + self.drawn))


def make_loader(
    dataset: Dataset[Any], spec: RunSpec, sampler: Any, *, seed: int, pinned: bool
) -> DataLoader[Any] | InMemory:
    """Return the loader of full batches; the order is the sampler's, ``seed`` is what its workers draw from.

    ``pinned`` puts batches of data in host memory where a GPU can fetch them while the host goes on.
    """
    if type(dataset) is TensorPairs and not spec.num_workers and not pinned:
        return InMemory(dataset, IndexBatches(sampler, spec.batch_size, drop_last=True))
    return DataLoader(
        dataset,
        **batching(dataset, spec.batch_size, sampler, drop_last=True),
        num_workers=spec.num_workers,
        persistent_workers=spec.num_workers > 0,
        pin_memory=pinned and _can_be_pinned(dataset),
        generator=own_generator(seed),
    )


class InMemory:
    """Batches of data that lies where it is used: what DataLoader adds to one index operation takes longer than it."""

    def __init__(self, pairs: TensorPairs, batches: IndexBatches) -> None:
        self.pairs, self.batches = pairs, batches

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return map(self.pairs.__getitem__, self.batches)


def batching(dataset: Dataset[Any], batch_size: int, sampler: Iterable[int], *, drop_last: bool) -> dict[str, Any]:
    """Return how a loader makes batches: of data in memory each batch is one index operation."""
    if type(dataset) is TensorPairs:
        batches = IndexBatches(sampler, batch_size, drop_last=drop_last)
        return {"batch_size": None, "sampler": batches, "collate_fn": _as_it_is}
    return {"batch_size": batch_size, "sampler": sampler, "drop_last": drop_last}


class IndexBatches:
    """The indices of a sampler in vectors of ``batch_size``."""

    def __init__(self, sampler: Iterable[int], batch_size: int, *, drop_last: bool) -> None:
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[torch.Tensor]:
        for indices in torch.tensor(list(self.sampler), dtype=torch.int64).split(self.batch_size):
            if len(indices) == self.batch_size or (len(indices) and not self.drop_last):
                yield indices


def own_generator(seed: int) -> torch.Generator:
    """Return a generator for a loader: without one each epoch draws from the default one, and so moves the dropout."""
    return torch.Generator().manual_seed(seed)


def validation_batches(
    dataset: Dataset[Any], batch_size: int, rank: int, world_size: int, collate: Callable[[Any], Any] | None = None
) -> DataLoader[Any]:
    """Return the loader over this rank's share of a split, each sample once, the last batch included."""
    how = batching(dataset, batch_size, range(rank, size_of(dataset), world_size), drop_last=False)
    return DataLoader(dataset, **({"collate_fn": collate} | how), generator=own_generator(0))


def _can_be_pinned(dataset: Dataset[Any]) -> bool:
    """Tell what is known to be dense and on the host; a user's items may be sparse, or on the GPU already."""
    return type(dataset) is TensorPairs and all(
        isinstance(values, torch.Tensor) and values.device.type == "cpu" and values.layout == torch.strided
        for values in (dataset.inputs, dataset.targets)
    )


def _as_it_is(batch: Any) -> Any:
    return batch


def moved(value: Any, device: torch.device) -> Any:
    """Move tensors in nested tuples, lists and dicts to the device.

    The host waits for the copy unless the tensor is pinned; from pageable memory ``non_blocking`` is only a wish.
    """
    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, Mapping):
        return {key: moved(item, device) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [moved(item, device) for item in value]
        # A named tuple takes its fields one by one.
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
