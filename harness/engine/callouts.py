"""Where does the harness run what a user wrote? Model, loss, metric and dataset are called here and nowhere else.

Each returns what its contract says, or raises a WorkloadError that names the part. Because every
call passes through this file, an error that comes from behind it is known to be the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from harness.errors import WorkloadError


def pairs(batches: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield (inputs, targets) of each batch of a dataset."""
    for batch in batches:
        if not isinstance(batch, (tuple, list)) or len(batch) != 2:
            raise WorkloadError(f"an item of a dataset must be a pair (inputs, targets), got {_shown(batch)}")
        yield batch[0], batch[1]


def call_model(model: Callable[..., Any], inputs: Any) -> Any:
    """Call the model: a dict of inputs as keywords, anything else as one argument."""
    return model(**inputs) if isinstance(inputs, Mapping) else model(inputs)


def call_augment(augment: Callable[[Any, torch.Generator], Any], inputs: Any, generator: torch.Generator) -> Any:
    """Return the changed inputs."""
    return augment(inputs, generator)


def call_loss(loss: Callable[[Any, Any], Any], output: Any, targets: Any) -> Tensor:
    """Return the loss of one batch: a scalar that depends on the trainable parameters."""
    value = loss(output, targets)
    if not isinstance(value, Tensor):
        raise WorkloadError(f"loss must return a scalar tensor, got {_shown(value)}")
    if value.dim():
        raise WorkloadError(f"loss must return a scalar, got shape {tuple(value.shape)}")
    if not value.requires_grad or value.is_complex():
        raise WorkloadError("loss must be a real number that depends on the model's trainable parameters")
    return value


def call_metric(metric: Callable[[Any, Any], Any], output: Any, targets: Any) -> Tensor:
    """Return the metric of each sample, shape (batch,), or the mean over the batch, shape ()."""
    value, size = _as_tensor(metric(output, targets)), batch_size(targets)
    if value.dim() > 1 or (value.dim() == 1 and size not in {None, len(value)}):
        expected = "(batch,)" if size is None else f"({size},)"
        raise WorkloadError(f"metric must return shape {expected} or (), got {tuple(value.shape)}")
    return value


def batch_size(targets: Any) -> int | None:
    """Return the length of the first tensor in nested targets: collating has put the batch first in each."""
    if isinstance(targets, Tensor):
        return len(targets) if targets.dim() else None
    items = targets.values() if isinstance(targets, Mapping) else targets if isinstance(targets, (tuple, list)) else ()
    return next((size for size in map(batch_size, items) if size is not None), None)


def _as_tensor(value: Any) -> Tensor:
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise WorkloadError(f"metric must return a tensor or a number, got {_shown(value)}") from error


def _shown(value: Any) -> str:
    size = f" of {len(value)}" if isinstance(value, (tuple, list, Mapping)) else ""
    return type(value).__name__ + size
