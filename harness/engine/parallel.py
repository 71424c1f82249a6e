"""How do the ranks of one run find each other, and how is the model shared among them?"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from harness.errors import UsageError

COLLECTIVE_TIMEOUT = timedelta(seconds=120)
"""A rank that has not come after two minutes will not come: torch's own default is 30 (gloo) and 10 (nccl) minutes."""


AS_IT_IS = nullcontext()


@dataclass(frozen=True)
class Ranks:
    """This process among the ranks of its run, as torchrun's environment variables tell it."""

    rank: int
    local_rank: int
    world_size: int
    launched: bool
    """Whether a launcher (torchrun or ours) started this process."""


def ranks_from_environment() -> Ranks:
    """Read torchrun's variables; without them this process is the only rank."""
    launched = "RANK" in os.environ and "WORLD_SIZE" in os.environ
    if not launched:
        return Ranks(0, 0, 1, launched=False)
    try:
        rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        return Ranks(rank, int(os.environ.get("LOCAL_RANK", rank)), world_size, launched=True)
    except ValueError as error:
        raise UsageError(f"RANK, LOCAL_RANK and WORLD_SIZE must be whole numbers: {error}") from error


def join(ranks: Ranks, backend: str) -> None:
    """Meet the other ranks; a single rank needs no group."""
    if ranks.world_size > 1 and not dist.is_initialized():
        dist.init_process_group(backend, timeout=COLLECTIVE_TIMEOUT)


def leave() -> None:
    """Wait for the other ranks.

    The group is left alive: freeing it holds the interpreter's lock and joins gloo's thread, which may
    wait for that lock (seen in one of six runs). ``end_process`` ends a rank without freeing anything.
    """
    if dist.is_initialized():
        dist.barrier()


def distribute(model: nn.Module, device: torch.device, world_size: int) -> nn.Module:
    """Wrap the model so that its gradients are averaged over the ranks."""
    if world_size == 1:
        return model
    return DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)


def bare(model: nn.Module) -> nn.Module:
    """Return the model without its wrapper."""
    return model.module if isinstance(model, DistributedDataParallel) else model


def synchronized(model: nn.Module) -> nn.Module:
    """Return the model without its wrapper, its buffers as on rank 0: every rank evaluates the same model.

    The wrapper would send the buffers itself in its next forward pass, which a rank without a sample does not do.
    """
    plain = bare(model)
    if plain is not model:
        for buffer in plain.buffers():
            dist.broadcast(buffer, 0)
    return plain


def no_reduction(model: nn.Module, last: bool) -> AbstractContextManager[object]:
    """Skip the gradient all-reduce for all but the last micro-batch of a step."""
    if last or not isinstance(model, DistributedDataParallel):
        return AS_IT_IS
    return model.no_sync()
