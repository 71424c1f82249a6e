"""The learning rate follows the steps that were taken."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from harness.engine.schedule import Schedule, factor
from tests.running import Launcher


def schedule(max_steps: int = 10, warmup_steps: int = 0, *, cosine: bool = True) -> Schedule:
    """Return the schedule of an optimizer with rate 1 that is about to step."""
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    made = Schedule(optimizer, warmup_steps=warmup_steps, max_steps=max_steps, cosine=cosine)
    optimizer.step()
    return made


def rate(of: Schedule) -> float:
    """Return the current learning rate."""
    return float(of.scheduler.get_last_lr()[0])


@pytest.mark.parametrize(
    ("step", "warmup", "cosine", "share"),
    [
        (0, 0, True, 1.0),
        (5, 0, True, 0.5),
        (10, 0, True, 0.0),
        (99, 0, True, 0.0),
        (0, 0, False, 1.0),
        (9, 0, False, 1.0),
        (0, 4, False, 0.2),
        (3, 4, False, 0.8),
        (4, 4, False, 1.0),
        (7, 4, True, 0.5),
        (10, 10, True, 1.0),
        (12, 20, True, 13 / 21),
    ],
)
def test_share_of_the_peak(step: int, warmup: int, cosine: bool, share: float) -> None:
    """Linear warm-up that begins above 0, then constant or half a cosine down to 0."""
    assert factor(step, warmup_steps=warmup, max_steps=10, cosine=cosine) == pytest.approx(share, abs=1e-12)


def test_skipped_step_uses_nothing_up() -> None:
    """Only what the optimizer took counts."""
    made = schedule()
    for taken in (False, True, False, False, True):
        made.advance(taken)
    assert rate(made) == pytest.approx(factor(2, warmup_steps=0, max_steps=10, cosine=True))


def test_state_brings_the_rate_back() -> None:
    """In a schedule of the new run's own length."""
    one, other = schedule(10), schedule(20)
    for _ in range(4):
        one.advance(True)
    other.load_state_dict(one.state_dict())
    other.advance(True)
    assert rate(other) == pytest.approx(factor(5, warmup_steps=0, max_steps=20, cosine=True))


def test_run_that_skips_steps_keeps_its_rate(launched: Launcher) -> None:
    """The recorded rate is that of the steps taken so far, not of those attempted."""
    run = launched(precision="fp16", init_scale=2.0**36, max_steps=30)
    skipped = run.summary["skipped_steps"]
    rates = [value for _, value in run.series("step", "lr")]
    assert 3 < skipped < 30
    assert rates[-1] == pytest.approx(1e-3 * factor(30 - skipped, warmup_steps=0, max_steps=30, cosine=True))
    assert rates[0] == 1e-3


def test_recorded_rate_is_that_of_the_next_step(launched: Launcher) -> None:
    """Without skipped steps the rates are the curve."""
    run = launched(warmup_steps=3, max_steps=10, lr=0.01)
    rates = [value for _, value in run.series("step", "lr")]
    assert rates == pytest.approx([0.01 * factor(n, warmup_steps=3, max_steps=10, cosine=True) for n in range(1, 11)])
