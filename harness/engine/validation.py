"""How good is the model now? The validation metric over every sample, summed in float64."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from harness.engine.data import call_model, moved, validation_batches
from harness.engine.precision import Autocast
from harness.errors import WorkloadError
from harness.workloads.base import Workload


class Validation:
    """Evaluates in the training's own precision and sums in float64; every rank takes its share."""

    def __init__(
        self, workload: Workload, device: torch.device, autocast: Autocast, rank: int, world_size: int
    ) -> None:
        self.workload, self.device, self.autocast, self.world_size = workload, device, autocast, world_size
        self.standard_error = float("nan")
        """Of the last mean, from the spread over the samples."""
        self.loader = validation_batches(workload.val_data, 256, rank, world_size)

    def __call__(self, model: nn.Module) -> float:
        """Return the mean of the metric over all samples of all ranks."""
        model.eval()
        try:
            with torch.no_grad():
                return self.reduced(self.total(self.evaluated(model)))
        finally:
            model.train()

    def evaluated(self, model: nn.Module) -> nn.Module:
        """Return the model that is evaluated."""
        return model

    def total(self, model: nn.Module) -> Tensor:
        """Return (sum of the values, number of values, sum of their squares) over this rank's samples, in float64."""
        sums = torch.zeros(3, dtype=torch.float64, device=self.device)
        for inputs, targets in self.loader:
            values = self.values(model, inputs, targets).double()
            sums += torch.stack([values.sum(), torch.ones_like(values).sum(), values.square().sum()])
        return sums

    def values(self, model: nn.Module, inputs: Any, targets: Any) -> Tensor:
        """Return the metric of each sample of one batch, shape (batch,)."""
        inputs, targets = moved(inputs, self.device), moved(targets, self.device)
        with self.autocast():
            value = torch.as_tensor(self.workload.metric(call_model(model, inputs), targets))
        if value.dim() == 0:
            return value.to(self.device).expand(_count(targets))
        if value.dim() != 1:
            raise WorkloadError(f"metric must return shape (batch,) or (), got {tuple(value.shape)}")
        return value.to(self.device)

    def reduced(self, sums: Tensor) -> float:
        """Return the mean over all ranks."""
        if self.world_size > 1:
            dist.all_reduce(sums)
        total, count, squares = sums.tolist()
        mean = total / count
        self.standard_error = math.sqrt(max(0.0, squares / count - mean**2) / count)
        return float(mean)


def _count(targets: Any) -> int:
    while isinstance(targets, (tuple, list, dict)):
        targets = next(iter(targets.values() if isinstance(targets, dict) else targets))
    return len(targets)
