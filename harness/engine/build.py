"""What is the loop made of? A spec becomes named parts; a fault may swap exactly one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer

from harness.config import RunSpec
from harness.devices.base import Device
from harness.engine.checkpoint import Checkpoint
from harness.engine.data import Batches
from harness.engine.generators import seed_all
from harness.engine.parallel import Ranks, distribute
from harness.engine.precision import Autocast, make_autocast, make_scaler
from harness.engine.schedule import Schedule
from harness.engine.update import Update, make_optimizer
from harness.engine.validation import Validation
from harness.errors import WorkloadError
from harness.faults.base import injection
from harness.workloads.base import Workload


@dataclass
class Parts:
    """Everything that one training run consists of."""

    workload: Workload
    model: nn.Module
    loss: Callable[[Any, Any], Tensor]
    optimizer: Optimizer
    autocast: Autocast
    scaler: GradScaler
    update: Update
    schedule: Schedule
    validation: Validation
    checkpoint: Checkpoint
    batches: Batches


def build(spec: RunSpec, workload: Workload, device: Device, ranks: Ranks) -> Parts:
    """Make every part, in the order in which one needs another; ``swap`` is where a fault comes in."""
    fault = injection(spec.fault)
    target = device.torch_device

    def swap(part: Any, value: Any) -> Any:
        return fault.apply(part, value, spec)

    seed_all(spec.seed + ranks.rank)
    model = distribute(swap("model", workload.model.to(target)), target, ranks.world_size)
    optimizer = swap("optimizer", make_optimizer(spec.optimizer, model, spec.lr, spec.weight_decay))
    autocast = swap("autocast", make_autocast(spec, target.type))
    scaler = swap("scaler", make_scaler(spec, target.type))
    _check_scaled(optimizer, scaler)
    schedule = Schedule(
        optimizer, warmup_steps=spec.warmup_steps, max_steps=spec.max_steps, cosine=spec.schedule == "cosine"
    )
    schedule = swap("schedule", schedule)
    return Parts(
        workload=workload,
        model=model,
        loss=swap("loss", workload.loss),
        optimizer=optimizer,
        autocast=autocast,
        scaler=scaler,
        update=swap("update", Update(model, optimizer, scaler, spec.clip_norm)),
        schedule=schedule,
        validation=swap("validation", Validation(workload, target, autocast, ranks, spec.batch_size)),
        checkpoint=swap("checkpoint", Checkpoint(model, optimizer, schedule, scaler, spec, ranks)),
        batches=swap("batches", Batches(workload, spec, ranks.rank, ranks.world_size, pinned=target.type == "cuda")),
    )


def _check_scaled(optimizer: Optimizer, scaler: GradScaler) -> None:
    """Refuse what torch refuses in the first step: gradients in fp16 cannot be brought to their true size."""
    weights = [p for group in optimizer.param_groups for p in group["params"]]
    if scaler.is_enabled() and any(p.dtype == torch.float16 for p in weights):
        raise WorkloadError(
            "the model's trainable weights are float16, and the loss scaler of precision fp16 needs float32 weights: "
            "drop .half() and let autocast choose the format, or run it with precision fp32 or bf16"
        )
