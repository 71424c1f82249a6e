"""What must be saved so that a resumed run equals the uninterrupted one?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.amp import GradScaler
from torch.optim import Optimizer

from harness.config import MAX_COUNT, RunSpec
from harness.engine.generators import generator_states, set_generators
from harness.engine.parallel import Ranks, bare
from harness.engine.schedule import Schedule
from harness.errors import HarnessError, UsageError

FORMAT = 2

KEPT = ("devices", "seed", "batch_size", "grad_accum", "optimizer", "lr", "weight_decay", "growth_interval")
"""Parts that a resumed run takes from its checkpoint: the position counts in them, or the saved state holds them."""


@dataclass
class Checkpoint:
    """Weights, optimizer, schedule, loss scale, every rank's random generators, and the position."""

    model: nn.Module
    optimizer: Optimizer
    schedule: Schedule
    scaler: GradScaler
    spec: RunSpec
    ranks: Ranks

    def state(self) -> dict[str, Any]:
        """Return everything that determines how the run goes on; all ranks call it."""
        return {
            "model": bare(self.model).state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "scaler": self.scaler.state_dict(),
            "generators": _of_all_ranks(generator_states(), self.ranks.world_size),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        bare(self.model).load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        if state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])
        set_generators(state["generators"][self.ranks.rank])

    def save(self, path: Path, position: dict[str, float]) -> None:
        """Let rank 0 write the state and the position; a reader never sees half a file. All ranks call it."""
        state = {"format": FORMAT, "position": position, "kept": self.kept()} | self.state()
        if self.ranks.rank == 0:
            _write(state, path)
        if self.ranks.world_size > 1:
            dist.barrier()

    def load(self, path: Path) -> dict[str, float]:
        """Restore from a file and return the position."""
        state = read(path)
        self.refuse_other(state["kept"], path)
        try:
            self.restore(state)
        # A state dict of something else breaks torch's loaders in any of these ways.
        except (KeyError, IndexError, AttributeError, RuntimeError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split())[:300]
            raise UsageError(f"--resume {path}: it does not fit this run: {type(error).__name__}: {reason}") from error
        position: dict[str, float] = state["position"]
        return position

    def kept(self) -> dict[str, Any]:
        """Return the parts of the spec that cannot change from a checkpoint to the run that resumes it."""
        return {name: getattr(self.spec, name) for name in KEPT}

    def refuse_other(self, saved: dict[str, Any], path: Path) -> None:
        """Refuse a checkpoint whose kept parts are not this run's."""
        other = [
            f"{name}={saved.get(name)} (here {mine})" for name, mine in self.kept().items() if saved.get(name) != mine
        ]
        if other:
            raise UsageError(f"--resume {path}: it was saved with {', '.join(other)}; a resumed run keeps these")


def read(path: Path) -> dict[str, Any]:
    """Read a checkpoint without executing anything that it contains."""
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        raise UsageError(f"--resume {path}: cannot be read: {error.strerror}") from error
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the unpickler raises anything on a file that is not a checkpoint
        raise UsageError(f"--resume {path}: not a checkpoint of this program ({type(error).__name__})") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT or not _is_position(state.get("position")):
        raise UsageError(f"--resume {path}: not a checkpoint of format {FORMAT}")
    if not isinstance(state.get("kept"), dict):
        raise UsageError(f"--resume {path}: it does not say which run it was saved by")
    return state


def _is_position(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("loss_scale"), (int, float)):
        return False
    counts = (value.get("step"), value.get("batches"))
    return all(isinstance(count, int) and 0 <= count <= MAX_COUNT for count in counts)


def _write(state: dict[str, Any], path: Path) -> None:
    partial = path.with_suffix(".partial")
    try:
        torch.save(state, partial)
        partial.replace(path)
    except (OSError, RuntimeError) as error:  # torch's writer says RuntimeError for a full disk
        partial.unlink(missing_ok=True)
        reason = " ".join(str(error).split())[:300]
        raise HarnessError(f"the checkpoint {path} cannot be written; is the disk full? {reason}") from error


def _of_all_ranks(mine: Any, world_size: int) -> list[Any]:
    if world_size == 1:
        return [mine]
    gathered: list[Any] = [None] * world_size
    dist.all_gather_object(gathered, mine)
    return gathered
