"""What must be saved so that a resumed run equals the uninterrupted one?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.amp import GradScaler
from torch.optim import Optimizer

from harness.engine.schedule import Schedule
from harness.errors import UsageError

FORMAT = 1


@dataclass
class Checkpoint:
    """Weights, optimizer, schedule, loss scale, random generators and position."""

    model: nn.Module
    optimizer: Optimizer
    schedule: Schedule
    scaler: GradScaler

    def state(self) -> dict[str, Any]:
        """Return everything that determines how the run goes on."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "scaler": self.scaler.state_dict(),
            "generators": generator_states(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        if state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])
        set_generators(state["generators"])

    def save(self, path: Path, position: dict[str, float]) -> None:
        """Write the state and the position; a reader never sees half a file."""
        partial = path.with_suffix(".partial")
        torch.save({"format": FORMAT, "position": position} | self.state(), partial)
        partial.replace(path)

    def load(self, path: Path) -> dict[str, float]:
        """Restore from a file and return the position."""
        state = read(path)
        try:
            self.restore(state)
        except (KeyError, RuntimeError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split())[:300]
            raise UsageError(f"--resume {path}: it does not fit this run: {type(error).__name__}: {reason}") from error
        position: dict[str, float] = state["position"]
        return position


def read(path: Path) -> dict[str, Any]:
    """Read a checkpoint without executing anything that it contains."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise UsageError(f"--resume {path}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # the unpickler raises anything on a file that is not a checkpoint
        raise UsageError(f"--resume {path}: not a checkpoint of this program ({type(error).__name__})") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise UsageError(f"--resume {path}: not a checkpoint of format {FORMAT}")
    return state


def generator_states() -> dict[str, Any]:
    """Return the states of torch's default generators."""
    states: dict[str, Any] = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def set_generators(states: dict[str, Any]) -> None:
    """Set torch's default generators."""
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
