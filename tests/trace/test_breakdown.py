"""Does the time of a window add up, and is each part of it called by its name?"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.trace.breakdown import Breakdown, break_down
from harness.trace.torch_json import read_trace
from tests.trace.made import ADD, HALF_GEMM, REDUCE, Made, steps


def of(made: Made, folder: Path) -> Breakdown:
    """Return the breakdown of a trace, whose shares add up to 1."""
    found = break_down(read_trace(made.write(folder / "trace.json")))
    total = found.compute + found.exposed_communication + found.exposed_copy + sum(found.idle.values())
    assert total == pytest.approx(1)
    return found


def test_every_part_has_its_share(tmp_path: Path) -> None:
    """Communication and copies count where no compute runs; the rest by what the host does."""
    found = of(
        steps(
            loading=(0.0, 0.2),
            compute=(0.2, 0.5),
            communication=(0.4, 0.6),
            copy=(0.55, 0.65),
            allocating=(0.65, 0.75),
            waiting=(0.8, 0.85),
        ),
        tmp_path,
    )
    assert found.compute == pytest.approx(0.3)
    assert found.communication == pytest.approx(0.2)
    assert found.exposed_communication == pytest.approx(0.1)
    assert found.communication_overlap == pytest.approx(0.5)
    assert found.exposed_copy == pytest.approx(0.05)
    assert found.idle == {
        "input": pytest.approx(0.2),
        "host": pytest.approx(0.2),
        "allocator": pytest.approx(0.1),
        "sync": pytest.approx(0.05),
        "unattributed": pytest.approx(0.0),
    }


def test_loading_beside_work_is_no_loss(tmp_path: Path) -> None:
    """The host may wait for a batch while the device computes."""
    assert of(steps(loading=(0.0, 0.9), compute=(0.0, 0.9)), tmp_path).idle["input"] == pytest.approx(0.0, abs=0.01)


def test_streams_are_merged(tmp_path: Path) -> None:
    """Two kernels at the same time are not twice the time."""
    made = Made().step(0, 0, 100)
    made.work(HALF_GEMM, 10, 60, launched=1).work(ADD, 10, 60, launched=2, stream=9)
    assert of(made, tmp_path).compute == pytest.approx(0.5)


def test_the_window_reaches_to_the_end_of_what_was_launched_in_it(tmp_path: Path) -> None:
    """A step of 100 whose kernel ends at 150 takes 150."""
    made = Made().step(0, 0, 100).work(HALF_GEMM, 10, 150, launched=5)
    assert of(made, tmp_path).window.length == pytest.approx(150)


def test_without_steps_the_window_is_that_of_the_work(tmp_path: Path) -> None:
    """From the first kernel to the last."""
    found = of(Made().work(ADD, 10, 20, launched=1).work(ADD, 90, 110, launched=80), tmp_path)
    assert found.window.length == pytest.approx(100)
    assert found.window.num_steps == 0
    assert found.idle["host"] == pytest.approx(0.7)


def test_the_first_step_is_left_out_where_there_are_enough(tmp_path: Path) -> None:
    """It warms up."""
    assert of(steps(5, compute=(0.0, 0.5)), tmp_path).window.num_steps == 4
    assert of(steps(2, compute=(0.0, 0.5)), tmp_path).window.num_steps == 2


def test_idle_behind_a_full_queue_is_not_the_hosts(tmp_path: Path) -> None:
    """The next kernel was launched long before: nobody knows why the device waits."""
    made = Made().step(0, 0, 200)
    made.work(HALF_GEMM, 0, 20, launched=0).work(HALF_GEMM, 180, 200, launched=1)
    assert of(made, tmp_path).idle["unattributed"] == pytest.approx(0.8, abs=0.02)


def test_products_by_units_and_the_top_of_the_kernels(tmp_path: Path) -> None:
    """Shares of the time of products, and kernels by their time."""
    found = of(steps(compute=(0.0, 0.3), simt=(0.3, 0.4), communication=(0.4, 0.6)), tmp_path)
    assert found.units == {"half": pytest.approx(0.75), "tf32": 0.0, "simt": pytest.approx(0.25), "unknown": 0.0}
    assert found.matrix == pytest.approx(1.0)
    assert [top.name for top in found.top][:2] == [HALF_GEMM, REDUCE]
    assert found.top[0].total_us == pytest.approx(6000)
