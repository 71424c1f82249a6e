"""How good is the model now? The validation metric over every sample, summed in float64."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from harness.engine.callouts import batch_size, call_metric, call_model, pairs
from harness.engine.data import moved, validation_batches
from harness.engine.parallel import Ranks, synchronized
from harness.engine.precision import Autocast
from harness.workloads.base import Workload


class Validation:
    """Evaluates in the training's own precision and sums in float64; every rank takes its share."""

    def __init__(
        self, workload: Workload, device: torch.device, autocast: Autocast, ranks: Ranks, batch_size: int
    ) -> None:
        self.workload, self.device, self.autocast, self.world_size = workload, device, autocast, ranks.world_size
        self.standard_error = float("nan")
        """Of the last mean, from the spread over the samples, or over the batches when the metric is a batch's mean."""
        self.loader = validation_batches(workload.val_data, batch_size, ranks.rank, ranks.world_size)

    def __call__(self, model: nn.Module) -> float:
        """Return the mean of the metric over all samples of all ranks."""
        plain = synchronized(model)
        plain.eval()
        try:
            with torch.no_grad():
                return self.reduced(self.total(self.evaluated(plain)))
        finally:
            plain.train()

    def evaluated(self, model: nn.Module) -> nn.Module:
        """Return the model that is evaluated."""
        return model

    def total(self, model: nn.Module) -> Tensor:
        """Return this rank's sums in float64: values, number of samples, squares, number of independent values."""
        sums = torch.zeros(4, dtype=torch.float64, device=self.device)
        for inputs, targets in pairs(self.loader):
            values = self.values(model, inputs, targets)
            # A mean that stands for its whole batch is one value: repeating it has left its stride at 0.
            independent = 1 if values.stride(0) == 0 else len(values)
            wide = values.double()
            sums += torch.stack(
                [wide.sum(), wide.new_tensor(len(wide)), wide.square().sum(), wide.new_tensor(independent)]
            )
        return sums

    def values(self, model: nn.Module, inputs: Any, targets: Any) -> Tensor:
        """Return the metric of each sample of one batch, shape (batch,)."""
        inputs, targets = moved(inputs, self.device), moved(targets, self.device)
        with self.autocast():
            value = call_metric(self.workload.metric, call_model(model, inputs), targets).to(self.device)
        return value if value.dim() else value.expand(batch_size(targets) or 1)

    def reduced(self, sums: Tensor) -> float:
        """Return the mean over all ranks."""
        if self.world_size > 1:
            dist.all_reduce(sums)
        total, count, squares, independent = sums.tolist()
        mean = total / count
        variance = squares / count - mean**2
        self.standard_error = math.sqrt(max(variance, 0.0) / independent) if independent > 1 else float("nan")
        return float(mean)
