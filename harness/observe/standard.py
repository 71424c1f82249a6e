"""Which observers watch a run?"""

from __future__ import annotations

import math
import weakref
from typing import Any

from torch import nn

from harness.observe.activations import Activations
from harness.observe.attach import Attachment
from harness.observe.base import Observer
from harness.observe.clipping import ClipOrder, Clipping
from harness.observe.discards import Discards
from harness.observe.evaluations import Evaluations
from harness.observe.gradients import Gradients
from harness.observe.losses import Losses
from harness.observe.recorder import Recorder
from harness.observe.reductions import Reductions
from harness.observe.rounding import Rounding
from harness.observe.scaled_norms import ScaledNorms
from harness.observe.scaling import Scaling
from harness.observe.schedules import Schedules
from harness.observe.unscales import Unscales
from harness.observe.updates import Updates

INTERVAL = 200
"""Steps between samples by default: a sample takes 0.45 ms, half a step of a perceptron whose step takes 0.8 ms."""

FULL_INTERVAL = 5
"""Steps between samples when cost does not matter."""


LEFT_OUT = {"default": "reductions, evaluations", "off": "everything"}
"""What each level does not observe."""


class Watch:
    """The standard observers of one run, attached from ``start`` to ``stop``."""

    def __init__(self, level: str) -> None:
        self.level = level
        self.result: dict[str, Any] = {}
        """What the run itself knows at its end."""
        self.model: weakref.ref[nn.Module] | None = None
        self.reductions: Reductions | None = None
        self.attachment: Attachment | None = None
        self.activations = Activations(self._step, self.name_of)

    def start(self, *more: Observer, patience_s: float = math.inf) -> None:
        """Attach, unless the level is off; ``more`` come after the standard observers."""
        if self.level == "off":
            return
        observers: list[Observer] = [
            Gradients(),
            Clipping(),
            ClipOrder(),
            ScaledNorms(),
            Updates(),
            Rounding(),
            Scaling(),
            Unscales(),
            Discards(),
            Schedules(),
            Losses(),
            self.activations,
        ]
        if self.level == "full":
            self.reductions = Reductions()
            self.reductions.__enter__()
            observers += [self.reductions, Evaluations(self._step, self.reductions.casts)]
        interval = FULL_INTERVAL if self.level == "full" else INTERVAL
        self.attachment = Attachment([*observers, *more], interval, patience_s)

    def stop(self) -> None:
        """Detach; may be called twice."""
        if self.attachment is not None:
            self.attachment.detach()
        if self.reductions is not None:
            self.reductions.__exit__(None, None, None)
            self.reductions = None

    def follow(self, model: nn.Module) -> None:
        """Name modules by their place in this model."""
        self.model = weakref.ref(model)

    def write_samples(self, recorder: Recorder) -> None:
        """Write what the observers sampled since the last call."""
        for record in self.attachment.read() if self.attachment else ():
            recorder.write("sample", **record)

    def summary(self) -> dict[str, Any]:
        """Return all observations over the run; names what was left out because of its cost."""
        observed = self.attachment.summary() if self.attachment else {}
        return observed | {"observe": self.level, "not_observed": "" if self.level == "full" else LEFT_OUT[self.level]}

    def _step(self) -> int:
        """Return the attempt under way, from 1."""
        return self.attachment.attempts + 1 if self.attachment else 1

    def name_of(self, module: nn.Module) -> str:
        """Return the place of a module in the model under training, ``head.0 (Linear)``, or its class alone."""
        kind = type(module).__name__
        model = self.model() if self.model else None
        roots = [model] if model is not None else list(self.activations.of_module)
        names = (name for root in roots for name, known in root.named_modules() if known is module)
        # Of all modules that hold it, the model itself has the longest name for it.
        longest = max(names, key=len, default="")
        return f"{longest} ({kind})" if longest else kind
