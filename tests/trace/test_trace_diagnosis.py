"""Is the largest loss named, a healthy trace left in peace, and a trace that says too little refused?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.trace.diagnosis import TraceDiagnosis, diagnose_trace
from harness.trace.torch_json import read_trace
from tests.trace.made import ADD, HALF_GEMM, REDUCE, Made, steps

BUSY: dict[str, Any] = {"compute": (0.0, 0.97)}


def of(made: Made, folder: Path) -> TraceDiagnosis:
    """Diagnose a trace."""
    return diagnose_trace(read_trace(made.write(folder / "trace.json")))


def test_one_device_is_judged(tmp_path: Path) -> None:
    """Another one that works while the first idles does not hide it."""
    made = steps(10, compute=(0.0, 0.5))
    for event in steps(10, compute=(0.5, 0.9)).events:
        if event["cat"] == "kernel":
            event["args"] |= {"device": 1, "correlation": event["args"]["correlation"] + 50}
            made.events.append(event)
    assert of(made, tmp_path).shares["compute"] == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("parts", "category", "cause"),
    [
        ({"loading": (0.0, 0.4), "compute": (0.4, 1.0)}, "input_pipeline", "unknown"),
        ({"compute": (0.0, 0.6), "communication": (0.6, 1.0)}, "communication", "unknown"),
        ({"compute": (0.0, 0.6), "communication": (0.2, 0.6), "copy": (0.6, 0.9)}, "input_pipeline", "unknown"),
        ({"compute": (0.0, 0.6), "allocating": (0.6, 1.0)}, "memory", "unknown"),
        ({"compute": (0.0, 0.5), "waiting": (0.5, 1.0)}, "host_overhead", "per_step_sync"),
        ({"compute": (0.5, 1.0)}, "host_overhead", "unknown"),
        ({"simt": (0.0, 0.95)}, "kernel_efficiency", "fp32_matmul"),
    ],
)
def test_the_largest_loss_comes_first(parts: dict[str, Any], category: str, cause: str, tmp_path: Path) -> None:
    """Hidden communication is none; of a busy device the kernels are asked for."""
    found = of(steps(**parts), tmp_path)
    assert found.status == "diagnosed"
    assert (found.findings[0].category, found.findings[0].cause) == (category, cause)
    assert 0.4 <= found.findings[0].confidence <= 0.9


@pytest.mark.parametrize(
    "parts",
    [
        BUSY,
        BUSY | {"communication": (0.1, 0.95)},
        BUSY | {"loading": (0.0, 0.9)},
        {"compute": (0.0, 0.8), "simt": (0.8, 0.95)},
        {"loading": (0.0, 0.1), "compute": (0.1, 1.0)},
    ],
)
def test_healthy_traces(parts: dict[str, Any], tmp_path: Path) -> None:
    """Products on Tensor Cores, communication that is hidden, loading beside work, small losses."""
    found = of(steps(**parts), tmp_path)
    assert (found.status, found.findings) == ("healthy", [])


def test_a_loader_without_workers_is_named(tmp_path: Path) -> None:
    """The iterator tells that the training process makes its batches itself."""
    made = steps(loading=(0.0, 0.4), compute=(0.4, 1.0))
    for event in made.events:
        event["name"] = event["name"].replace("_MultiProcessing", "_SingleProcess")
    assert of(made, tmp_path).findings[0].cause == "too_few_workers"


def test_short_kernels_and_many_collectives(tmp_path: Path) -> None:
    """Launching takes longer than the work; each weight is reduced by itself."""
    launching, talking = Made().step(0, 0, 1000).host("aten::add", 0, 1000), Made().step(0, 0, 1000)
    for at in range(0, 1000, 10):
        launching.work(ADD, at + 5, at + 8, launched=at + 1)
        talking.work(HALF_GEMM, at, at + 6, launched=at - 3).work(REDUCE, at + 6, at + 10, launched=at - 2, stream=9)
    assert of(launching, tmp_path).findings[0].cause == "small_kernels"
    assert of(talking, tmp_path).findings[0].cause == "small_buckets"


def sampled(made: Made) -> Made:
    """Keep one in a hundred calls: their numbers are far apart."""
    for event in made.events:
        if "args" in event:
            event["args"]["correlation"] *= 100
    return made


def unlaunched(made: Made) -> Made:
    """Drop half of the kernels, and keep their launches."""
    kernels = [event for event in made.events if event.get("cat") == "kernel"]
    made.events = [event for event in made.events if event not in kernels[::2]]
    return made


def silent(made: Made) -> Made:
    """Drop all that the host did, and launch everything in the beginning."""
    made.events = [event for event in made.events if event["cat"] != "cpu_op"]
    for event in made.events:
        if event["cat"] == "cuda_runtime":
            event["ts"] = 1e6
    return made


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (Made().host("aten::mm", 0, 10), "the trace holds no kernel"),
        (Made().work(HALF_GEMM, 0, 10, launched=0), "1 kernel(s) are no step"),
        (sampled(steps(compute=(0.5, 1.0))), "most are not in the file"),
        (unlaunched(steps(60, compute=(0.5, 1.0))), "of the launches have one"),
        (silent(steps(compute=(0.5, 1.0))), "the host shows nothing"),
    ],
    ids=["no kernel", "one kernel", "sampled", "dropped records", "nobody knows"],
)
def test_what_says_too_little_is_not_judged(made: Made, told: str, tmp_path: Path) -> None:
    """The reason, and how to record it again."""
    found = of(made, tmp_path)
    assert (found.status, found.findings) == ("not_enough_evidence", [])
    assert told in found.missing[0].observation
    assert "record again" in found.missing[0].command
