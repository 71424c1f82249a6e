"""Is a fault found that a loop makes by hand, without the functions of torch?"""

from __future__ import annotations

from typing import Any

import pytest

from harness.diagnose.diagnosis import diagnose
from harness.diagnose.observations import Observations
from tests.diagnose.records import FP16, run_of

BF16: dict[str, Any] = {"train_formats": "bfloat16,float32"}
BY_HAND = FP16 | {"scaled_attempts": 0, "final_loss_scale": 1.0}

OTHER_FORMS: list[tuple[str, dict[str, Any]]] = [
    ("clip_before_unscale", FP16 | {"fixed_scaled_norm": 1.0, "second_unscale_share": 1.0}),
    ("clip_before_unscale", BY_HAND | {"step_norm_ratio": 1 / 1024}),
    ("double_unscale", FP16 | {"shared_unscale_share": 0.5, "second_unscale_share": None}),
    ("scaler_state_lost", FP16 | {"replaced_scalers": 2}),
    ("static_scale_overflow", BY_HAND | {"discarded_share_late": 0.2}),
    ("static_scale_overflow", BY_HAND | {"lost_backward_share": 0.2, "fp16_floor_share": 1.0}),
    ("fp16_activation_overflow", FP16 | {"infinite_module": "norm", "zero_grad_share": 0.5}),
    ("fp16_activation_overflow", FP16 | {"overflow_site": "mul at model.py:3", "zero_grad_share": 0.5}),
    ("scheduler_on_skipped_steps", BY_HAND | {"discarded_leads": 5}),
    ("low_precision_reduction", BF16 | {"running_sum_error": 0.01, "reduction_error": None}),
    ("low_precision_reduction", {"fp16_floor_share": 0.05, "reduction_error": None}),
    ("low_precision_reduction", BF16 | {"fp16_floor_share": 0.2, "reduction_error": None}),
    (
        "low_precision_weights",
        {"rounded_weight_share": 1.0, "stalled_rounded_share": 0.3, "stalled_rounded_between": 0.3},
    ),
]


@pytest.mark.parametrize(("cause", "summary"), OTHER_FORMS)
def test_the_same_cause_in_another_form(cause: str, summary: dict[str, Any]) -> None:
    """What a loop does by hand, without the functions of torch, is the same fault."""
    result = diagnose(Observations(run_of(summary)))
    assert [finding.cause for finding in result.findings] == [cause]


@pytest.mark.parametrize("more", [{"train_formats": "float16,float32"}, {"train_weight_bits": 7}])
def test_updates_by_hand_in_16_bits_are_not_judged(more: dict[str, Any]) -> None:
    """No optimizer took a step: that is said, with what would help, and nothing is called checked."""
    result = diagnose(Observations(run_of({"attempted_steps": 0} | more)))
    assert (result.status, result.checked) == ("not_enough_evidence", [])
    assert "no optimizer took a step" in result.missing[0].observation
    assert diagnose(Observations(run_of({"attempted_steps": 0}))).status == "healthy"
