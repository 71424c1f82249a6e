"""Is the loss scaled, and how many steps did the scaler skip?"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer

from harness.observe.base import Observer, doubt
from harness.observe.overflows import on_host

TAIL = 2
"""The steady state is the second half of the attempts: dynamic scaling finds its scale in the first."""


MAX_PENDING = 1000
"""Scales kept on the device before they are looked at: looking waits for it."""


class Scaling(Observer):
    """The life of the loss scale; all counts are exact, over every attempt.

    ``scaled_attempts``             attempts under a live scaler
    ``skipped_steps``               attempts that the scaler did not take
    ``skipped_share_late``          skipped / attempts in the second half, 0 to 1
    ``final_loss_scale``            the scale at the end
    ``scale_backoffs``              times the scale fell
    ``scaler_restores``             times a saved state was loaded into a scaler
    ``replaced_scalers``            times a scaler without a past took over an optimizer that another one had stepped,
                                    at another scale
    ``fresh_scaler_resumes``        times an optimizer's steps were restored, and a scaler without a past took over
    """

    in_between = ("on_scaler_step", "on_scaler_update", "on_scaler_restored", "on_optimizer_restored")
    under_scaler = ("on_optimizer_stepped", "on_attempt_end")

    def __init__(self) -> None:
        self.attempts = 0
        self.scaled_attempts = 0
        self.skipped: list[int] = []
        self.doubtful: list[tuple[int, Tensor]] = []
        """Attempts of a fused optimizer with a number that is not 0 when the step was skipped."""
        self.told: set[int] = set()
        self.restored = 0
        self.known: WeakSet[GradScaler] = WeakSet()
        """Scalers that have a past: they took a step, or were restored."""
        self.resumed: WeakSet[Optimizer] = WeakSet()
        """Optimizers with restored steps that no scaler has stepped since."""
        self.fresh = 0
        self.stepped_by: WeakKeyDictionary[Optimizer, GradScaler] = WeakKeyDictionary()
        self.takeovers: list[Tensor] = []
        """New scale / old scale, for each scaler that took over; on the device."""
        self.replaced = 0
        self.places: WeakKeyDictionary[GradScaler, int] = WeakKeyDictionary()
        self.started: set[int] = set()
        """Scalers, by place, whose first scale was kept."""
        self.scales: list[tuple[int, int, Tensor]] = []
        """(attempt, scaler, its scale), not yet looked at."""
        self.last: dict[int, float] = {}
        """Scaler -> its last scale that was looked at."""
        self.backoffs = 0
        self.unread: list[dict[str, Any]] = []
        self.history: list[dict[str, Any]] = []
        self._live = self._taken = False

    def on_scaler_step(self, scaler: GradScaler, optimizer: Optimizer) -> None:
        """An attempt under a live scale; before the first one it is where it starts."""
        self._live = True
        if optimizer in self.resumed:
            self.resumed.discard(optimizer)
            self.fresh += scaler not in self.known
        elif scaler not in self.known:
            self._note_takeover(scaler, self.stepped_by.get(optimizer))
        self.stepped_by[optimizer] = scaler
        self.known.add(scaler)
        if self.places.setdefault(scaler, len(self.places)) not in self.started:
            self.started.add(self.places[scaler])
            self._keep_scale(scaler)

    def on_optimizer_stepped(self, optimizer: Optimizer) -> None:
        """The attempt was taken, or a fused optimizer decides."""
        self._taken = True
        skipped = doubt(optimizer)
        if skipped is not None:
            self.doubtful.append((self.attempts + 1, skipped))

    def on_scaler_update(self, scaler: GradScaler) -> None:
        """Keep the new scale."""
        self.places.setdefault(scaler, len(self.places))
        self._keep_scale(scaler)
        if len(self.scales) >= MAX_PENDING:
            self.unread += self._changes()

    def on_scaler_restored(self, scaler: GradScaler) -> None:
        """A checkpoint brought the scale back."""
        self.restored += 1
        self.known.add(scaler)

    def on_optimizer_restored(self, optimizer: Optimizer) -> None:
        """A checkpoint brought the optimizer back; one without state has no past, unless it never has any."""
        if optimizer.state or all(group.get("momentum") == 0 for group in optimizer.param_groups):
            self.resumed.add(optimizer)

    def on_attempt_end(self, step: int) -> None:
        """Count."""
        self.attempts = step
        self.scaled_attempts += self._live
        if self._live and not self._taken:
            self.skipped.append(step)
        self._live = self._taken = False

    def read(self) -> list[dict[str, Any]]:
        """Return the scale after each attempt where it changed, and the attempts that were skipped."""
        flags = on_host([flag for _, flag in self.doubtful])
        self.skipped += [step for (step, _), flag in zip(self.doubtful, flags, strict=True) if flag > 0]
        self.doubtful = []
        self.replaced += sum(ratio != 1 for ratio in on_host([ratio.reshape(()) for ratio in self.takeovers]))
        self.takeovers = []
        skipped = [{"step": step, "skipped": 1} for step in self.skipped if step not in self.told]
        self.told = set(self.skipped)
        changes, self.unread = self.unread + self._changes(), []
        return skipped + changes

    def _note_takeover(self, scaler: GradScaler, predecessor: GradScaler | None) -> None:
        new, old = getattr(scaler, "_scale", None), getattr(predecessor, "_scale", None)
        if isinstance(new, Tensor) and isinstance(old, Tensor):
            self.takeovers.append(new.detach() / old.detach())

    def _keep_scale(self, scaler: GradScaler) -> None:
        """Keep the scale; it stays on the device."""
        scale = getattr(scaler, "_scale", None)
        if isinstance(scale, Tensor):
            self.scales.append((self.attempts, self.places[scaler], scale.detach().clone()))

    def _changes(self) -> list[dict[str, Any]]:
        values = on_host([scale.reshape(()) for *_, scale in self.scales])
        kept = []
        for (step, place, _), value in zip(self.scales, values, strict=True):
            before = self.last.get(place)
            if value != before:
                kept.append({"step": step, "loss_scale": value})
                self.backoffs += before is not None and value < before
            self.last[place] = value
        self.scales = []
        self.history += kept
        return kept

    def summary(self) -> dict[str, Any]:
        """Return counts and the last scale."""
        self.read()
        scales = [sample["loss_scale"] for sample in self.history]
        late = self.attempts - self.attempts // TAIL
        return {
            "scaled_attempts": self.scaled_attempts,
            "skipped_steps": len(self.skipped),
            "skipped_share_late": sum(s > self.attempts // TAIL for s in self.skipped) / late if late else None,
            "final_loss_scale": scales[-1] if scales else 1.0,
            "scaler_restores": self.restored,
            "fresh_scaler_resumes": self.fresh,
            "replaced_scalers": self.replaced,
            "scale_backoffs": self.backoffs,
        }
