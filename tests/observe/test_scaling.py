# mypy: allow-untyped-calls
"""Are skipped steps, clips and the life of the loss scale counted exactly?"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.amp import GradScaler
from torch.nn.utils import clip_grad_norm_

from harness.observe import scaling
from harness.observe.clipping import ClipOrder
from harness.observe.scaling import Scaling
from tests.observe.loops import loss_that, scaled_step, seen, watched, weight


class Fp16:
    """A parameter, its optimizer and a live scaler."""

    def __init__(self, scale: float = 8.0, *, enabled: bool = True) -> None:
        self.parameter = weight(1, 1)
        self.optimizer = torch.optim.SGD([self.parameter], lr=0.0)
        self.scaler = GradScaler("cpu", init_scale=scale, enabled=enabled)

    def steps(self, overflows: str) -> None:
        """Take one attempt for each letter: x overflows, a dot does not."""
        for letter in overflows:
            scaled_step(self.scaler, self.optimizer, loss_that(self.parameter, overflows=letter == "x"))

    def clipped_steps(self, orders: str, clip: Callable[[nn.Parameter], Any]) -> None:
        """Take one attempt for each letter: e clips early, r clips in the right order, a dot does not clip."""
        for order in orders:
            self.optimizer.zero_grad()
            self.scaler.scale(self.parameter.sum()).backward()
            if order == "e":
                clip(self.parameter)
            self.scaler.unscale_(self.optimizer)
            if order == "r":
                clip(self.parameter)
            self.scaler.step(self.optimizer)
            self.scaler.update()


def test_skips_and_scale_are_exact() -> None:
    """Two overflows in six attempts: two skips, both early, and the scale halves twice."""
    loop = Fp16(scale=8.0)
    expected = {
        "attempted_steps": 6,
        "scaled_attempts": 6,
        "skipped_steps": 2,
        "skipped_share_late": 0.0,
        "final_loss_scale": 2.0,
        "scale_backoffs": 2,
    }
    assert seen(Scaling(), lambda: loop.steps("xx....")).items() >= expected.items()


@pytest.mark.parametrize(
    ("attempts", "late"), [("..x.", 0.5), ("...x", 0.5), ("x...", 0.0), (".x.x.", 1 / 3), ("x", 1.0)]
)
def test_late_means_the_second_half(attempts: str, late: float) -> None:
    """Of an odd number of attempts the one in the middle is late."""
    assert seen(Scaling(), lambda: Fp16().steps(attempts))["skipped_share_late"] == late


def test_samples_tell_skips_and_changes_of_the_scale() -> None:
    """The scale is told where it changed, the skips with their step, each once."""
    loop = Fp16(scale=8.0)
    with watched(Scaling()) as attachment:
        loop.steps(".x.")
        first = attachment.read()
        loop.steps(".x")
        second = attachment.read()
    assert first == [{"step": 0, "loss_scale": 8.0}, {"step": 2, "skipped": 1, "loss_scale": 4.0}]
    assert second == [{"step": 5, "skipped": 1, "loss_scale": 2.0}]


def test_a_long_run_without_a_read_keeps_little() -> None:
    """Scales are looked at in batches, and what was found is still told at the next read."""
    loop = Fp16(scale=8.0)
    with watched(Scaling(), interval=10**6) as attachment:
        loop.steps("x" + "." * scaling.MAX_PENDING)
        assert len(attachment.observers[0].scales) < scaling.MAX_PENDING  # type: ignore[attr-defined]
        assert {"step": 1, "skipped": 1, "loss_scale": 4.0} in attachment.read()


CLIPS: dict[str, Callable[[nn.Parameter], Any]] = {
    "by_norm": lambda parameter: torch.nn.utils.clip_grad_norm_([parameter], 1.0),
    "imported_before": lambda parameter: clip_grad_norm_(parameter, max_norm=1.0),
    "from_generator": lambda parameter: clip_grad_norm_((p for p in [parameter]), 1.0),
    "by_value": lambda parameter: torch.nn.utils.clip_grad_value_([parameter], 1.0),
    "in_two_parts": lambda parameter: torch.nn.utils.clip_grads_with_norm_([parameter], 1.0, torch.tensor(8.0)),
}


@pytest.mark.parametrize(("orders", "share"), [("rr", 0.0), ("ee", 1.0), ("er", 0.5), ("e.", 1.0), ("..", 0.0)])
@pytest.mark.parametrize("clip", [CLIPS["by_norm"], CLIPS["imported_before"]], ids=["by_norm", "imported_before"])
def test_clips_before_unscale_are_counted(orders: str, share: float, clip: Callable[[nn.Parameter], Any]) -> None:
    """The share is over the attempts with a clip, however the script got hold of the function."""
    assert seen(ClipOrder(), lambda: Fp16().clipped_steps(orders, clip))["clips_before_unscale_share"] == share


@pytest.mark.parametrize("way", CLIPS)
def test_every_way_to_clip_is_seen(way: str) -> None:
    """By norm, by value, from a generator, in two parts: an early clip is an early clip."""
    assert seen(ClipOrder(), lambda: Fp16().clipped_steps("e", CLIPS[way]))["clips_before_unscale_share"] == 1.0


def test_a_clip_without_a_live_scale_is_never_early() -> None:
    """In fp32, or with a disabled scaler, there is nothing to unscale."""
    found = seen(ClipOrder(), lambda: Fp16(enabled=False).clipped_steps("ee", CLIPS["by_norm"]))
    assert found["clips_before_unscale_share"] == 0.0


def test_a_loop_without_a_scaler() -> None:
    """Plain optimizer steps are attempts, and all are taken."""
    optimizer = torch.optim.SGD([weight(1)], lr=0.1)
    found = seen(Scaling(), lambda: [optimizer.step() for _ in range(4)])
    assert (found["attempted_steps"], found["scaled_attempts"], found["skipped_share_late"]) == (4, 0, 0.0)


def test_several_optimizers_share_a_scaler() -> None:
    """Each step under the scaler is an attempt; only the optimizer with the overflow is skipped."""
    one, other = Fp16(), Fp16()
    scaler = one.scaler

    def train() -> None:
        (scaler.scale(loss_that(one.parameter, overflows=True)) + scaler.scale(other.parameter.sum())).backward()
        for loop in (one, other):
            scaler.unscale_(loop.optimizer)
        for loop in (one, other):
            scaler.step(loop.optimizer)
        scaler.update()

    found = seen(Scaling(), train)
    assert (found["attempted_steps"], found["scaled_attempts"], found["skipped_steps"]) == (2, 2, 1)


def test_a_fused_optimizer_skips_inside_its_kernel() -> None:
    """Its step is called in any case; the skip is known from the number that the scaler hands to it."""
    parameter, scaler = weight(1, 1), GradScaler("cpu", init_scale=8.0)
    optimizer = torch.optim.AdamW([parameter], lr=0.1, fused=True)

    def train() -> None:
        for overflows in (True, False, True):
            optimizer.zero_grad()
            scaler.scale(loss_that(parameter, overflows=overflows)).backward()
            scaler.step(optimizer)
            scaler.update()

    found = seen(Scaling(), train)
    assert (found["skipped_steps"], found["skipped_share_late"], found["attempted_steps"]) == (2, 0.5, 3)


def test_a_restored_scale_is_noticed() -> None:
    """Loading a state is told to the observer."""
    observer, loop = Scaling(), Fp16()
    seen(observer, lambda: loop.scaler.load_state_dict(Fp16(scale=4.0).scaler.state_dict()))
    assert observer.restored == 1


def test_nothing_attempted_has_no_late_share() -> None:
    """Without any attempt there is no share, rather than a share of 0."""
    assert seen(Scaling(), lambda: None)["skipped_share_late"] is None


@pytest.mark.parametrize(
    ("restores_scaler", "trains_before", "resumes"), [(False, True, 1), (True, True, 0), (False, False, 0)]
)
def test_a_new_scaler_after_a_resume_is_counted(restores_scaler: bool, trains_before: bool, resumes: int) -> None:
    """An optimizer that has a past gets a scaler that has none: the scale starts over."""

    def phases() -> None:
        parameter = weight(1)
        first, scaler = torch.optim.Adam([parameter], lr=0.1), GradScaler("cpu", init_scale=8.0)
        if trains_before:
            scaled_step(scaler, first, loss_that(parameter, overflows=False))
        second, fresh = torch.optim.Adam([parameter], lr=0.1), GradScaler("cpu", init_scale=8.0)
        second.load_state_dict(first.state_dict())
        if restores_scaler:
            fresh.load_state_dict(scaler.state_dict())
        scaled_step(fresh, second, loss_that(parameter, overflows=False))

    assert seen(Scaling(), phases)["fresh_scaler_resumes"] == resumes


def test_a_scaler_that_goes_on_is_no_new_one() -> None:
    """The best weights are loaded back into the optimizer; the scaler never stopped."""

    def rewind() -> None:
        parameter, scaler = weight(1), GradScaler("cpu", init_scale=8.0)
        optimizer = torch.optim.Adam([parameter], lr=0.1)
        scaled_step(scaler, optimizer, loss_that(parameter, overflows=False))
        optimizer.load_state_dict(optimizer.state_dict())
        scaled_step(scaler, optimizer, loss_that(parameter, overflows=False))

    assert seen(Scaling(), rewind)["fresh_scaler_resumes"] == 0


@pytest.mark.parametrize(
    ("limit", "share"), [(1e9, 0.0), (float("inf"), 0.0), (torch.tensor(math.inf), 0.0), (1.0, 1.0)]
)
def test_a_limit_that_is_not_reached_only_measures(limit: Any, share: float) -> None:
    """A clip that changes nothing cannot come too early."""
    found = seen(ClipOrder(), lambda: Fp16().clipped_steps("ee", lambda parameter: clip_grad_norm_([parameter], limit)))
    assert found["clips_before_unscale_share"] == share
