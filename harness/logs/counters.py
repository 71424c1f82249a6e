"""Which step and epoch hold now, and has a new run begun?"""

from __future__ import annotations

import math

ADVANCES = 5
"""Steps that a run must have advanced before a step at its start begins another: ranks print in disorder."""


class Counters:
    """The step and the epoch that hold now, and whether they fell back to the start."""

    def __init__(self) -> None:
        self.step: float | None = None
        self.epoch: float | None = None
        self.first_step = self.first_epoch = math.inf
        self.max_step = self.max_epoch = -math.inf
        self.advances = 0

    def see(self, step: float | None, epoch: float | None) -> None:
        """Take the counters of a row; those that it does not have hold on."""
        if epoch is not None:
            self.epoch = epoch
        if step is not None:
            self.step = step

    def restarted(self) -> bool:
        """Take the counters of a row of training; True when they are those of a new run."""
        step, epoch = self.step, self.epoch
        fell = epoch is not None and epoch <= self.first_epoch and self.max_epoch > self.first_epoch
        if epoch is None and step is not None:
            fell = step <= self.first_step and self.advances >= ADVANCES
        if fell:
            self.first_step = self.first_epoch = math.inf
            self.max_step = self.max_epoch = -math.inf
            self.advances = 0
        if epoch is not None:
            self.first_epoch, self.max_epoch = min(self.first_epoch, epoch), max(self.max_epoch, epoch)
        if step is not None:
            self.advances += self.max_step < step
            self.first_step, self.max_step = min(self.first_step, step), max(self.max_step, step)
        return fell
