"""The printed lines have the promised form, and each is the text of the record beside it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness.config import RunOptions
from harness.observe.recorder import FORMATS, number
from harness.runs import Run
from tests.running import Launcher

NUMBER = r"(nan|-?inf|-?[0-9.]+(e[-+][0-9]+)?)"

STEP = re.compile(rf"step=[0-9]+ loss={NUMBER} throughput={NUMBER} (tokens|samples)/s")

EPOCH = re.compile(rf"epoch=[0-9]+ step_time={NUMBER} val_metric={NUMBER}")

SCALING = re.compile(rf"n=[0-9]+ {NUMBER} samples/s")

NUMBERS = ("loss", "throughput", "step_time", "val_metric", "samples_per_s")

NAN = """
def make():
    return parts(loss=lambda o, t: F.cross_entropy(o, t) * float("nan"), metric=lambda o, t: float("inf"))
"""


def lines(run: Run) -> list[str]:
    """Return what rank 0 printed."""
    return (run.folder / "rank0.log").read_text().splitlines()


def texts_of_records(run: Run) -> list[str]:
    """Return the text forms of the records that have one."""
    told = [record for record in run.ranks[0].records if record["event"] in FORMATS]
    return [FORMATS[record["event"]](record | numbers(record)) for record in told]


def numbers(record: dict[str, Any]) -> dict[str, float | None]:
    """Return the numbers of a record; JSON holds those that are not finite as text."""
    return {name: number(record[name]) for name in NUMBERS if name in record}


@pytest.mark.parametrize(
    ("parts", "unit"),
    [({}, "samples/s"), ({"workload": "byte_lm", "batch_size": 8}, "tokens/s"), ({"devices": 2}, "samples/s")],
)
def test_lines_are_the_records(launched: Launcher, parts: dict[str, Any], unit: str) -> None:
    """Steps, two validations and the scaling line, in the order of events."""
    run = launched(RunOptions(log_interval=4), val_interval=6, **parts)
    assert lines(run) == texts_of_records(run)
    kinds = [
        next(k for k, p in zip("sev", (STEP, EPOCH, SCALING), strict=True) if p.fullmatch(line)) for line in lines(run)
    ]
    assert "".join(kinds) == "sessev"
    assert all(line.endswith(unit) for line in lines(run) if line.startswith("step="))
    assert lines(run)[-1].startswith(f"n={parts.get('devices', 1)} ")


def test_numbers_that_are_not_finite_keep_the_form(launched: Launcher) -> None:
    """A reader of the lines never meets another word."""
    run = launched.workload(NAN, RunOptions(log_interval=6))
    assert lines(run) == texts_of_records(run)
    assert [
        bool(pattern.fullmatch(line)) for pattern, line in zip((STEP, STEP, EPOCH, SCALING), lines(run), strict=True)
    ]
    assert "loss=nan" in lines(run)[0]
    assert "val_metric=inf" in lines(run)[2]


@pytest.mark.parametrize(("interval", "steps"), [(1, list(range(1, 13))), (5, [5, 10, 12]), (100, [12])])
def test_steps_are_logged_at_their_interval_and_at_the_end(launched: Launcher, interval: int, steps: list[int]) -> None:
    """The last one always."""
    run = launched(RunOptions(log_interval=interval))
    assert [step for step, _ in run.series("step", "loss")] == steps


@pytest.mark.parametrize(("interval", "steps"), [(0, [12]), (4, [4, 8, 12]), (5, [5, 10, 12])])
def test_validation_comes_at_its_interval_and_at_the_end(launched: Launcher, interval: int, steps: list[int]) -> None:
    """0 validates at the end only."""
    run = launched(val_interval=interval)
    assert [step for step, _ in run.series("validation", "val_metric")] == steps


def test_throughput_counts_all_ranks_and_micro_batches(launched: Launcher) -> None:
    """Samples of a whole step by its time."""
    run = launched(RunOptions(log_interval=12), devices=2, grad_accum=3)
    per_s, step_time = run.value("samples_per_s"), run.value("step_time_s")
    assert per_s is not None
    assert step_time is not None
    assert per_s * step_time == pytest.approx(32 * 3 * 2)
    assert run.ranks[0].last("scaling")["samples_per_s"] == per_s


def test_presentation_changes_no_number(launched: Launcher) -> None:
    """Neither the interval of the lines nor a time limit nor the observers are part of the result."""
    plain = launched()
    for options, parts in ((RunOptions(log_interval=12), {}), (RunOptions(time_limit_s=50), {"observe": "off"})):
        other = launched(options, **parts)
        assert other.value("loss") == plain.value("loss")
        assert other.value("val_metric") == plain.value("val_metric")


def test_first_record_says_what_was_run(launched: Launcher) -> None:
    """Spec, device, machine, model and data; the fault, which an investigator must not see, is not there."""
    start = launched(precision="bf16", fault="low_precision_weights").start
    assert start["spec"]["precision"] == "bf16"
    assert "fault" not in start["spec"]
    assert (start["device_kind"], start["spec"]["device"]) == ("cpu", "cpu")
    assert (start["num_train"], start["num_val"], start["num_parameters"]) == (1437, 360, 8970)
    assert re.fullmatch("[0-9a-f]{12}", start["data_hash"])
    assert start["environment"]["torch"]


@pytest.mark.parametrize("fault", ["low_precision_weights", "clip_before_unscale", "scaler_state_lost"])
def test_name_of_a_fault_is_in_no_file(launched: Launcher, fault: str) -> None:
    """Records, output and checkpoints."""
    run = launched(precision="fp16", fault=fault, checkpoint_interval=6, restart_at=5)
    assert run.state == "completed", run.message
    for path in run.folder.iterdir():
        assert fault.encode() not in path.read_bytes()
