"""How long does a training step take, without validation, checkpoints and warm-up?"""

from __future__ import annotations

import time

from harness.devices.base import Device


class Stopwatch:
    """Counts steps and seconds between ticks; each tick waits for the device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.laps: list[tuple[int, float]] = []
        self._step = 0
        self._since = time.perf_counter()

    def resume(self) -> None:
        """Forget the time since the last tick: it was not spent on training."""
        self.device.synchronize()
        self._since = time.perf_counter()

    def tick(self, step: int) -> tuple[int, float]:
        """Return (steps, seconds) since the last tick."""
        self.device.synchronize()
        now = time.perf_counter()
        lap = (step - self._step, max(now - self._since, 1e-9))
        self._step, self._since = step, now
        if lap[0] > 0:
            self.laps.append(lap)
        return lap

    def start_at(self, step: int) -> None:
        """Count from ``step`` on."""
        self._step = step
        self.resume()

    @property
    def step_time_s(self) -> float:
        """Mean seconds of a step; the first lap is warm-up when there are others."""
        laps = self.laps[1:] or self.laps
        steps = sum(steps for steps, _ in laps)
        return sum(seconds for _, seconds in laps) / steps if steps else float("nan")
