"""Does the learning-rate schedule advance with the steps that were taken?"""

from __future__ import annotations

from typing import Any

from torch.optim import Optimizer

from harness.observe.base import Observer


class Schedules(Observer):
    """Counts over every step.

    ``optimizer_steps``       steps that the optimizer took
    ``scheduler_steps``       times the schedule advanced
    ``schedule_lead``         scheduler steps during attempts that were not taken
    """

    def __init__(self) -> None:
        self.optimizer_steps = 0
        self.scheduler_steps = 0
        self.lead = 0
        self._taken = True
        self._last_taken = True

    def on_optimizer_stepped(self, optimizer: Optimizer) -> None:
        """A step was taken."""
        self.optimizer_steps += 1
        self._taken = True

    def on_attempt_end(self, step: int) -> None:
        """The schedule is advanced after the attempt: remember how the attempt ended."""
        self._last_taken, self._taken = self._taken, False

    def on_schedule(self, scheduler: Any) -> None:
        """Count one advance; a scheduler sets its first learning rate by a step of its own."""
        if getattr(scheduler, "_is_initial", False):
            return
        self.scheduler_steps += 1
        self.lead += not self._last_taken

    def summary(self) -> dict[str, Any]:
        """Return the counts."""
        return {
            "optimizer_steps": self.optimizer_steps,
            "scheduler_steps": self.scheduler_steps,
            "schedule_lead": self.lead,
        }
