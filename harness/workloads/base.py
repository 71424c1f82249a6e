"""What is trained? Model, data, loss and validation metric; nothing about how it is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass, fields
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch.utils.data import Dataset, IterableDataset

from harness.errors import WorkloadError


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The parts of a workload; ``loss`` and ``metric`` get ``(model(inputs), targets)``."""

    model: nn.Module
    train_data: Dataset[Any]
    """Items are ``(inputs, targets)``; it has a length."""
    val_data: Dataset[Any]
    loss: Callable[[Any, Any], Tensor]
    """Returns a scalar: the mean loss of the batch."""
    metric: Callable[[Any, Any], Tensor]
    """Returns one value per sample, shape (batch,), or the mean over the batch, shape ()."""
    metric_name: str = "metric"
    metric_goal: Literal["max", "min"] = "max"
    augment: Callable[[Any, torch.Generator], Any] | None = None
    """Changes a batch of inputs on the host, drawing from the generator; training only."""
    tokens_per_sample: int = 0
    """Throughput is counted in tokens when this is positive, otherwise in samples."""

    def __post_init__(self) -> None:
        for name in ("train_data", "val_data"):
            _check_dataset(name, getattr(self, name))
        _check_model(self.model)
        _check_function("loss", self.loss, "(output, targets)")
        _check_function("metric", self.metric, "(output, targets)")
        if self.augment is not None:
            _check_function("augment", self.augment, "(inputs, generator)")
        if type(self.tokens_per_sample) is not int or self.tokens_per_sample < 0:
            raise WorkloadError(f"tokens_per_sample must be a whole number >= 0, got {self.tokens_per_sample!r}")
        if self.metric_goal not in {"max", "min"}:
            raise WorkloadError(f"metric_goal must be 'max' or 'min', got {self.metric_goal!r}")

    @property
    def unit(self) -> str:
        """The unit of throughput."""
        return "tokens/s" if self.tokens_per_sample else "samples/s"


REQUIRED = ("model", "train_data", "val_data", "loss", "metric")


def as_workload(made: Any, where: str) -> Workload:
    """Accept a Workload, a mapping, or any object with the parts as attributes; name a missing part."""
    if isinstance(made, Workload):
        return made
    names = [f.name for f in fields(Workload)]
    values = dict(made) if isinstance(made, Mapping) else {n: getattr(made, n) for n in names if hasattr(made, n)}
    if not values and not isinstance(made, Mapping):
        raise WorkloadError(
            f"{where}: the factory returned {_shown(made)}; accepted are a Workload, a dict, or an object with the "
            f"attributes {', '.join(REQUIRED)}"
        )
    missing = [name for name in REQUIRED if values.get(name) is None]
    if missing:
        raise WorkloadError(f"{where}: the workload lacks {', '.join(missing)}; it needs {', '.join(REQUIRED)}")
    unknown = [str(name) for name in values if name not in names]
    if unknown:
        raise WorkloadError(f"{where}: unknown parts {', '.join(unknown)}; known are: {', '.join(names)}")
    try:
        return Workload(**values)
    except WorkloadError as error:
        raise WorkloadError(f"{where}: {error}") from error


class TensorPairs(Dataset[Any]):
    """Inputs and targets in memory; a vector of indices gives a whole batch in one operation."""

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int | Tensor) -> tuple[Tensor, Tensor]:
        return self.inputs[index], self.targets[index]


def size_of(dataset: Dataset[Any]) -> int:
    """Return the number of samples of a map-style dataset."""
    return len(cast("Sized", dataset))


def _shown(made: object) -> str:
    """Say what a factory returned; its content may be long, or fail to be shown."""
    return "nothing (None)" if made is None else f"an object of type {type(made).__name__}"


def _check_model(model: object) -> None:
    if not isinstance(model, nn.Module):
        raise WorkloadError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if not any(p.requires_grad for p in model.parameters()):
        raise WorkloadError("model has no trainable parameter (requires_grad is false for all)")
    if any(isinstance(p, UninitializedParameter) for p in model.parameters()):
        raise WorkloadError("model has lazy parameters without a shape; pass one batch through it in the factory")


def _check_function(name: str, value: object, arguments: str) -> None:
    if not callable(value):
        raise WorkloadError(f"{name} must be a function of {arguments}, got {value!r}")


def _check_dataset(name: str, dataset: object) -> None:
    indexed = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    if not indexed or isinstance(dataset, IterableDataset):
        raise WorkloadError(
            f"{name} must have a length and an index (a map-style dataset), got {type(dataset).__name__}"
        )
    if size_of(cast("Dataset[Any]", dataset)) == 0:
        raise WorkloadError(f"{name} is empty")
