"""Does each fault keep its contract? A new file in harness/faults is tested here the moment it exists."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import nn

from harness.config import RunSpec, changed, check_spec
from harness.devices.select import open_device
from harness.engine.build import Parts, build
from harness.engine.parallel import Ranks
from harness.engine.workload import load_workload
from harness.errors import UsageError
from harness.exam.keys import Change
from harness.experiment.store import RunStore
from harness.faults.base import FAULTS, MAX_SEVERITY, Fault, Part, injection
from harness.launch import run as launch
from harness.runs import Run
from tests.gallery import incident, keys, places, tiny

ALONE = Ranks(0, 0, 1, launched=False)

TIMED = {"time", "throughput", "step_time", "step_time_s", "samples_per_s", "peak_memory_bytes", "environment"}
"""What two equal runs may differ in."""


def spec_of(name: str) -> RunSpec:
    """Return a tiny run in which a fault has its effect."""
    key = keys()[name]
    wanted = key.suspect | key.workloads.get("digits_mlp", {})
    return changed(tiny(), {k: v for k, v in wanted.items() if k not in {"max_steps", "restart_at"}})


def parts_of(spec: RunSpec) -> Parts:
    """Build every part of a run in this process."""
    device = open_device("cpu", 0)
    spec = injection(spec.fault).apply("spec", spec, spec)
    return build(spec, load_workload(spec.workload, spec.size, spec.seed), device, ALONE)


def replaced(part: Any) -> dict[str, str]:
    """Return the functions that a part has of its own instead of its class's."""
    return {name: value.__qualname__ for name, value in vars(part).items() if hasattr(value, "__qualname__")}


def first_rates(parts: Parts) -> list[float]:
    """Return the learning rates over the first steps; the schedule is used up by it."""
    rates = []
    for _ in range(4):
        rates.append(parts.optimizer.param_groups[0]["lr"])
        parts.optimizer.step()
        parts.schedule.scheduler.step()
    return rates


DESCRIBED: dict[str, Callable[[Parts], Any]] = {
    "model": lambda p: (
        [(name, type(module)) for name, module in p.model.named_modules()],
        [(name, value.dtype, value.tolist()) for name, value in p.model.state_dict().items()],
    ),
    "loss": lambda p: p.loss.__qualname__,
    "optimizer": lambda p: (type(p.optimizer), p.optimizer.defaults, replaced(p.optimizer).keys() - {"step"}),
    "autocast": lambda p: (p.autocast.device_type, p.autocast.dtype),
    "scaler": lambda p: (type(p.scaler), p.scaler.is_enabled(), p.scaler.state_dict()),
    "update": lambda p: (type(p.update), p.update.clip_norm, replaced(p.update)),
    "validation": lambda p: (type(p.validation), p.validation.autocast, replaced(p.validation)),
    "checkpoint": lambda p: (type(p.checkpoint), replaced(p.checkpoint)),
    "batches": lambda p: (p.batches.augment, [x.tolist() for x, _ in islice(p.batches, 2)]),
    "schedule": lambda p: (type(p.schedule), replaced(p.schedule), first_rates(p)),
}
"""What each part is and does. The schedule comes last: looking at it moves it."""


def test_every_part_is_described() -> None:
    """A part that a fault can change is compared below."""
    assert set(DESCRIBED) == {field.name for field in fields(Parts)} - {"workload"} == set(get_args(Part)) - {"spec"}


@pytest.mark.parametrize("name", FAULTS.names())
class TestFault:
    """The contract of every fault."""

    def test_it_declares_what_it_does(self, name: str) -> None:
        """Part, observation, direction, a finite bound, and where the bound comes from."""
        fault = FAULTS.load(name)
        assert isinstance(fault, Fault)
        assert fault.part in get_args(Part)
        assert fault.direction in {"up", "down"}
        assert fault.observation.isidentifier()
        assert math.isfinite(fault.bound)
        assert len(fault.bound_origin.split()) >= 3
        assert 0 < abs(fault.severity) <= MAX_SEVERITY

    def test_it_changes_exactly_its_part(self, name: str) -> None:
        """Healthy and faulty parts are built side by side; the others are what they were, down to the numbers."""
        spec, part = spec_of(name), FAULTS.load(name).part
        healthy, faulty = parts_of(spec), parts_of(changed(spec, {"fault": name}))
        differ = [p for p, described in DESCRIBED.items() if described(healthy) != described(faulty)]
        # A changed spec is carried out by the parts that it describes.
        assert differ == ["batches" if part == "spec" else part]

    def test_it_moves_the_recorded_spec_only_if_that_is_its_part(self, name: str) -> None:
        """Every other fault runs under the very spec that the records show."""
        spec = changed(spec_of(name), {"fault": name})
        moved = injection(name).apply("spec", spec, spec)
        check_spec(moved)
        assert (moved != spec) == (FAULTS.load(name).part == "spec")

    def test_it_is_seeded(self, name: str, tmp_path: Path) -> None:
        """The same spec twice gives the same records, up to times."""
        spec = changed(spec_of(name), {"fault": name})
        first, second = (numbers_of(launch(spec, tmp_path / folder)) for folder in ("first", "second"))
        assert first == second
        assert first

    def test_it_leaves_its_name_nowhere(self, name: str, store: RunStore) -> None:
        """No file of the run's folder holds it, and no file is named after it."""
        for workload in keys()[name].workloads:
            folder = incident(name, workload, store).suspect.folder
            for path in folder.rglob("*"):
                assert name not in path.name
                assert path.is_dir() or name.encode() not in path.read_bytes(), path
            assert list(folder.glob("rank*.jsonl"))

    def test_it_has_an_answer_key(self, name: str) -> None:
        """What nobody asks for is no incident."""
        assert name in keys()

    def test_its_part_can_be_put_right(self, name: str, store: RunStore) -> None:
        """Putting its own part right is the healthy twin; putting any other part right changes nothing."""
        shown = incident(name, next(iter(keys()[name].workloads)), store)
        for part in get_args(Part):
            expected = shown.control_spec if part == shown.fault.part else shown.suspect_spec
            assert shown.spec_after(Change(why="", part=part)) == expected


def numbers_of(run: Run) -> list[dict[str, Any]]:
    """Return the records of a run without times and memory."""

    def kept(record: dict[str, Any]) -> dict[str, Any]:
        return {k: kept(v) if isinstance(v, dict) else v for k, v in record.items() if k not in TIMED}

    return [kept(record) for record in run.ranks[0].records]


@pytest.mark.parametrize(("cause", "workload"), places())
def test_the_declared_observation_moves_beyond_its_bound(cause: str, workload: str, store: RunStore) -> None:
    """With the fault it is beyond the bound, without it within."""
    shown = incident(cause, workload, store)
    healthy, faulty, bound = shown.observed(shown.control), shown.observed(shown.suspect), shown.fault.bound
    assert healthy is not None
    assert faulty is not None
    up = shown.fault.direction == "up"
    assert healthy <= bound if up else healthy >= bound
    assert faulty > bound if up else faulty < bound


@pytest.mark.parametrize("text", ["", "low_precision_weights", "low_precision_weights:2.5", "static_scale_overflow:-3"])
def test_severity_is_read_or_the_faults_own(text: str) -> None:
    """NAME:SEVERITY gives it, NAME alone takes the default, and nothing is no fault."""
    found = injection(text)
    name, _, severity = text.partition(":")
    assert (found.fault is None) == (not name)
    if name:
        assert found.severity == (float(severity) if severity else FAULTS.load(name).severity)


@pytest.mark.parametrize("severity", ["much", "", "nan", "inf", "1e9", "1,5"])
def test_a_severity_that_is_no_number_is_refused(severity: str) -> None:
    """The message says what was given and does not repeat the name."""
    with pytest.raises(UsageError, match="the severity must be a number") as caught:
        injection(f"low_precision_weights:{severity}")
    assert "low_precision" not in str(caught.value)


def test_an_unknown_fault_is_refused_with_a_hint() -> None:
    """A slip of the finger gets the name that was meant."""
    with pytest.raises(UsageError, match="did you mean 'low_precision_weights'"):
        injection("low_precision_weight")


def test_no_fault_changes_nothing() -> None:
    """Without a fault every part comes back as it went in."""
    value = object()
    for part in get_args(Part):
        assert injection("").apply(part, value, RunSpec()) is value


@pytest.mark.parametrize("name", [n for n in FAULTS.names() if FAULTS.load(n).part == "model"])
def test_a_model_that_cannot_show_it_is_refused_without_its_name(name: str) -> None:
    """The refusal goes into the run's records, which the candidate reads."""

    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2, 2))

    told = ""
    try:
        injection(name).apply("model", Bare(), RunSpec())
    except UsageError as error:
        told = str(error)
    assert name not in told
