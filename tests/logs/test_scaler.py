"""Is a loss scale that settles told apart from one that collapses?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.asked import causes_of
from tests.logs.curves import falling


def apex(scale: float) -> str:
    """A skip as apex tells it."""
    return f"Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {scale}"


def deepspeed(scale: float) -> str:
    """A skip as DeepSpeed tells it."""
    return (
        "[2025-03-04 10:00:00,123] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 "
        "Skipping step. "
        f"Attempted loss scale: {scale * 2:g}, reducing to {scale:g}"
    )


def fairseq(scale: float) -> str:
    """A skip as fairseq tells it."""
    said = "NOTE: gradient overflow detected, ignoring gradient, setting loss scale to"
    return f"2025-03-04 10:00:00 | INFO | fairseq.trainer | {said}: {scale}"


SKIPS = {"apex": apex, "deepspeed": deepspeed, "fairseq": fairseq}


def losses(first: int, length: int = 40) -> str:
    """Return lines of steps that succeed."""
    return "\n".join(f"step {first + i} loss {value:.4f}" for i, value in enumerate(falling(1, length, 11, 8)))


@pytest.mark.parametrize("program", SKIPS)
@pytest.mark.parametrize("top", [16, 24, 32])
def test_calibration_is_healthy(program: str, top: int, tmp_path: Path) -> None:
    """Halvings at the start that settle, also from 2**32."""
    skips = [SKIPS[program](2.0**power) for power in range(top - 1, 14, -1)]
    assert causes_of(tmp_path, "\n".join([*skips, losses(len(skips))])) == ["healthy"]


@pytest.mark.parametrize("program", SKIPS)
def test_collapse_is_found(program: str, tmp_path: Path) -> None:
    """Skip after skip down to one half."""
    skips = [SKIPS[program](2.0**power) for power in range(15, -2, -1)]
    assert causes_of(tmp_path, "\n".join(skips)) == ["fp16_overflow"]
    assert causes_of(tmp_path, "\n".join([losses(0), *skips])) == ["fp16_overflow"]


@pytest.mark.parametrize("program", SKIPS)
def test_now_and_then_is_healthy(program: str, tmp_path: Path) -> None:
    """One halving in every growth interval."""
    text = "\n".join(f"{losses(40 * n)}\n{SKIPS[program](32768.0)}" for n in range(8))
    assert "fp16_overflow" not in causes_of(tmp_path, text)


def test_a_chain_that_is_cut_off_is_a_doubt(tmp_path: Path) -> None:
    """Ten halvings and then no line: it may settle or not."""
    assert causes_of(tmp_path, "\n".join(apex(2.0**power) for power in range(15, 5, -1))) == ["not_enough_evidence"]


def test_an_end_at_the_minimum_is_found(tmp_path: Path) -> None:
    """The program says itself that it gave up."""
    text = (
        losses(0) + "\nException: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run."
    )
    assert causes_of(tmp_path, text) == ["fp16_overflow"]


def test_a_scale_that_stays_at_one_and_skips_is_found(tmp_path: Path) -> None:
    """Overflow at a scale of 1, again and again."""
    assert causes_of(tmp_path, "\n".join([deepspeed(1.0)] * 6)) == ["fp16_overflow"]


def megatron(scales: list[float], skipped: int) -> str:
    """Lines of Megatron with these scales, and skips in each interval of ten steps."""
    return "\n".join(
        f" iteration {10 * i + 10}/ 9000 | lm loss: {value:.5E} | loss scale: {scale:.1f} | grad norm: 1.1 | "
        f"number of skipped iterations: {skipped} |"
        for i, (scale, value) in enumerate(zip(scales, falling(3, len(scales), 11, 8), strict=True))
    )


def test_scale_as_a_column(tmp_path: Path) -> None:
    """A scale that falls to its floor is a collapse; one that settles, or grows back, is none."""
    settled = [2.0**32, 2.0**22, *[2.0**16] * 18]
    assert causes_of(tmp_path, megatron(settled, 0)) == ["healthy"]
    assert causes_of(tmp_path, megatron([2.0**16] * 10 + [2.0**15] * 5 + [2.0**16] * 5, 0)) == ["healthy"]
    assert causes_of(tmp_path, megatron([2.0 ** max(0, 16 - i) for i in range(30)], 1)) == ["fp16_overflow"]


def test_skips_as_a_count(tmp_path: Path) -> None:
    """Half of all steps skipped is a fault at any scale."""
    assert causes_of(tmp_path, megatron([128.0] * 20, 5)) == ["fp16_overflow"]
