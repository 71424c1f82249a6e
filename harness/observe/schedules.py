"""Does the learning-rate schedule advance with the steps that were taken? Only a scaler skips steps unasked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer

from harness.observe.base import Observer, doubt
from harness.observe.overflows import on_host

MAX_PENDING = 1000
"""Uncertain steps kept on the device before they are counted: counting waits for it."""


@dataclass
class Track:
    """The steps of one optimizer: how many, and whether its last attempt was taken."""

    steps: int = 0
    taken: bool = True
    skipped: Tensor | None = None
    """Not 0 when the last attempt, although it seemed taken, was skipped inside the optimizer."""
    rates: tuple[float, ...] = ()
    """The learning rates at the last attempt, where they are numbers."""
    has_scheduler: bool = False


class Schedules(Observer):
    """Counts over every step since a live scaler was first seen.

    ``scheduler_steps``       times a schedule advanced
    ``schedule_lead``         advances after an attempt that was not taken, with no step taken since the last advance;
                              a learning rate that is written by hand advances when it changes
    """

    in_between = ("on_scaler_step",)
    under_scaler = ("on_optimizer_stepped", "on_schedule")

    def __init__(self) -> None:
        self.tracks: WeakKeyDictionary[Optimizer, Track] = WeakKeyDictionary()
        """Of the optimizers that a scaler steps."""
        self.steps_at_advance: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self.scheduler_steps = 0
        self.lead = 0
        self.doubtful_leads: list[Tensor] = []

    def on_scaler_step(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """An attempt begins that may be skipped."""
        track = self._track(optimizer)
        rates = tuple(lr for group in optimizer.param_groups if isinstance(lr := group.get("lr"), float))
        if track.rates and rates != track.rates and not track.has_scheduler:
            self.scheduler_steps += 1
            self.lead += not track.taken
        track.taken, track.rates = False, rates

    def on_optimizer_stepped(self, optimizer: Optimizer) -> None:
        """A step was taken, or a fused optimizer was called."""
        track = self.tracks.get(optimizer)
        if track is not None:
            track.steps, track.taken, track.skipped = track.steps + 1, True, doubt(optimizer)

    def on_schedule(self, scheduler: Any) -> None:
        """Count one advance; a scheduler sets its first learning rate by a step of its own."""
        track = self.tracks.get(getattr(scheduler, "optimizer", None))  # type: ignore[arg-type]
        if getattr(scheduler, "_is_initial", False) or track is None:
            return
        track.has_scheduler = True
        self.scheduler_steps += 1
        since = track.steps - self.steps_at_advance.get(scheduler, 0)
        self.steps_at_advance[scheduler] = track.steps
        if not track.taken:
            self.lead += since == 0
        elif track.skipped is not None and since <= 1:
            self.doubtful_leads.append(track.skipped)
        if len(self.doubtful_leads) >= MAX_PENDING:
            self._settle()

    def summary(self) -> dict[str, Any]:
        """Return the counts."""
        self._settle()
        return {"scheduler_steps": self.scheduler_steps, "schedule_lead": self.lead}

    def _track(self, optimizer: Optimizer) -> Track:
        return self.tracks.setdefault(optimizer, Track())

    def _settle(self) -> None:
        self.lead += sum(flag > 0 for flag in on_host(self.doubtful_leads))
        self.doubtful_leads = []
