"""The schedule advances on every attempt, also on those that the scaler skipped."""

from __future__ import annotations

from typing import Any

from harness.faults.base import Context, Fault


def change(schedule: Any, context: Context) -> Any:
    """Ignore whether the step was taken."""
    schedule.advance = lambda taken: schedule.scheduler.step()
    return schedule


FAULT = Fault(
    part="schedule",
    change=change,
    observation="schedule_lead_share",
    direction="up",
    bound=0.01,
    bound_origin="steady fp16 training skips below 1 % of its steps; an exact count, 0 when the schedule follows",
)
