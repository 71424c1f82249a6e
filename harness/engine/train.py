"""How is a model trained here? The loop, in the order of events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from torch import Tensor

from harness.config import RunOptions, RunSpec
from harness.devices.base import Device
from harness.engine.build import Parts
from harness.engine.callouts import call_loss, call_model
from harness.engine.data import moved
from harness.engine.ending import DivergedError, OutOfTimeError
from harness.engine.parallel import no_reduction
from harness.engine.stopwatch import Stopwatch
from harness.errors import UsageError
from harness.observe.recorder import Recorder
from harness.observe.standard import Watch

NONFINITE_LINES = 3
"""Log lines in a row with a non-finite loss before a run counts as diverged: one may be a bad
batch."""


class Loop:
    """One training run; ``run`` continues it from its current step."""

    def __init__(self, spec: RunSpec, options: RunOptions, device: Device, recorder: Recorder, watch: Watch) -> None:
        self.spec, self.options, self.device, self.recorder, self.watch = spec, options, device, recorder, watch
        self.step = 0
        self.stopwatch = Stopwatch(device)
        self.deadline = time.monotonic() + options.time_limit_s if options.time_limit_s else float("inf")
        self.loss = self.val_metric = float("nan")
        self.nonfinite_lines = 0

    def run(self, parts: Parts, until: int, folder: Path) -> None:
        """Train until step ``until``; every event is recorded as it happens."""
        parts.model.train()
        batches = iter(parts.batches)
        self.stopwatch.resume()
        while self.step < until:
            self.step += 1
            losses = self.forward_backward(parts, batches)
            taken = parts.update()
            parts.schedule.advance(taken)

            last = self.step == self.spec.max_steps
            if last or self.due(self.options.log_interval):
                # Reading the loss waits for the device: only here, never in a step in between.
                self.log(parts, sum(loss.item() for loss in losses) / len(losses))
            if last or self.due(self.spec.val_interval):
                self.validate(parts)
            if self.due(self.spec.checkpoint_interval):
                self.save(parts, folder / f"step{self.step}.pt")
        self.stopwatch.tick(self.step)

    def forward_backward(self, parts: Parts, batches: Iterator[tuple[object, object]]) -> list[Tensor]:
        """Add up the gradients of all micro-batches of one step; return their losses, still on the device."""
        losses = []
        share = self.spec.loss_weight / self.spec.grad_accum
        for micro in range(self.spec.grad_accum):
            inputs, targets = moved(next(batches), self.device.torch_device)
            # Only the last micro-batch of a step needs the all-reduce.
            with no_reduction(parts.model, last=micro + 1 == self.spec.grad_accum):
                with parts.autocast():
                    loss = call_loss(parts.loss, call_model(parts.model, inputs), targets)
                weighted = loss if share == 1 else loss * share
                parts.scaler.scale(weighted).backward()
            losses.append(loss.detach())
        return losses

    def log(self, parts: Parts, loss: float) -> None:
        """Record loss, throughput and what the observers sampled."""
        steps, seconds = self.stopwatch.tick(self.step)
        self.loss = loss
        self.recorder.write(
            "step",
            step=self.step,
            loss=loss,
            throughput=steps * self.samples_per_step * max(1, parts.workload.tokens_per_sample) / seconds,
            unit=parts.workload.unit,
            lr=parts.optimizer.param_groups[0]["lr"],
        )
        self.watch.write_samples(self.recorder)
        self.check(loss)

    def validate(self, parts: Parts) -> None:
        """Record the validation metric; its time does not count as training time."""
        self.stopwatch.tick(self.step)
        self.val_metric = parts.validation(parts.model)
        self.recorder.write(
            "validation",
            step=self.step,
            epoch=parts.batches.epoch,
            step_time=self.stopwatch.step_time_s,
            val_metric=self.val_metric,
            standard_error=parts.validation.standard_error,
            metric=parts.workload.metric_name,
            goal=parts.workload.metric_goal,
        )
        self.stopwatch.resume()

    def save(self, parts: Parts, path: Path) -> None:
        """Write a checkpoint; its time does not count as training time."""
        self.stopwatch.tick(self.step)
        scale = parts.scaler.get_scale()
        parts.checkpoint.save(path, {"step": self.step, "batches": parts.batches.drawn, "loss_scale": scale})
        self.recorder.write("checkpoint", step=self.step, path=path.name)
        self.stopwatch.resume()

    def restore(self, parts: Parts, path: Path) -> None:
        """Continue where a checkpoint stopped."""
        position = parts.checkpoint.load(path)
        self.step = int(position["step"])
        if self.step >= self.spec.max_steps:
            raise UsageError(
                f"--resume {path}: it is at step {self.step}; max_steps={self.spec.max_steps} leaves nothing"
            )
        parts.batches.start_at(int(position["batches"]))
        self.stopwatch.start_at(self.step)
        saved, live = position["loss_scale"], parts.scaler.get_scale()
        self.recorder.write("resume", step=self.step, path=path.name, saved_scale=saved, live_scale=live)

    def check(self, loss: float) -> None:
        """Stop a run that is lost or late."""
        self.nonfinite_lines = 0 if abs(loss) < float("inf") else self.nonfinite_lines + 1
        if self.nonfinite_lines >= NONFINITE_LINES:
            raise DivergedError(
                f"the loss was not finite in {NONFINITE_LINES} log lines in a row, until step {self.step}"
            )
        if time.monotonic() > self.deadline:
            raise OutOfTimeError(f"the time limit of {self.options.time_limit_s:g} s passed at step {self.step}")

    def due(self, interval: int) -> bool:
        """Tell whether something that happens every ``interval`` steps is due; 0 is never."""
        return interval > 0 and self.step % interval == 0

    @property
    def samples_per_step(self) -> int:
        """Samples of all ranks in one optimizer step."""
        return self.spec.batch_size * self.spec.grad_accum * self.spec.devices
