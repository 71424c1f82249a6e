"""The self-test accepts a correct device and names each way in which a device can be wrong."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch

from harness.devices import selftest
from harness.devices.selftest import compare, main, measure_product, run_ranks
from harness.devices.selftest_verdict import BOUND_EPS, EPS, Product, RankReport, judge
from harness.observe.outcome import GateCheck

ROOT = Path(__file__).parents[2]
GOOD = Product(error_eps=0.4, largest_eps=2.0, num_not_finite=0)
RANK = RankReport(software="torch", products=dict.fromkeys(EPS, GOOD), num_sums=8)


def outcomes(*reports: RankReport) -> dict[str, GateCheck]:
    """The checks by name."""
    return {check.name: check for check in judge(reports, "gloo")}


def test_process_prints_one_json_list() -> None:
    """The command prints its checks and nothing else, and exits with 0 on a healthy CPU."""
    command = [sys.executable, "-m", "harness.devices.selftest", "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    checks = {check["name"]: check["outcome"] for check in json.loads(done.stdout)}
    assert checks.pop("matrix product tf32") == "SKIPPED"
    assert list(checks) == [
        "torch on the device",
        "matrix product fp32",
        "matrix product bf16",
        "matrix product fp16",
        "finite values",
        "collectives",
    ]
    assert set(checks.values()) == {"PASSED"}


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_cpu_products_are_inside_the_bound(precision: str) -> None:
    """A correct product has an error of the size that rounding alone explains: neither zero nor near the bound."""
    product = measure_product(precision, torch.device("cpu"))
    assert product.within(BOUND_EPS[precision])
    assert 0.1 < product.error_eps < BOUND_EPS[precision] / 2


@pytest.mark.parametrize(("asked", "given"), [("fp32", "tf32"), ("fp32", "bf16"), ("fp16", "bf16"), ("tf32", "bf16")])
def test_coarser_format_is_found(asked: str, given: str) -> None:
    """A device that computes in a coarser format than it was asked for is outside the bound."""
    # fp16 stands in for tf32: the same eps.
    eps = EPS[given] / EPS[asked]
    product = measure_product("bf16" if given == "bf16" else "fp16", torch.device("cpu"))
    replaced = Product(product.error_eps * eps, product.largest_eps * eps, 0)
    assert not replaced.within(BOUND_EPS[asked])


def test_one_wrong_element_is_found() -> None:
    """A single wrong element among 65,536 leaves the norm alone and is found by the largest error."""
    generator = torch.Generator().manual_seed(0)
    reference = torch.randn(256, 256, generator=generator, dtype=torch.float64)
    result = reference.clone()
    result[17, 3] += 0.5
    product = compare(result, reference, EPS["bf16"])
    assert product.error_eps < BOUND_EPS["bf16"]
    assert not product.within(BOUND_EPS["bf16"])


def test_healthy_ranks_pass() -> None:
    """Two good ranks pass every check, without a remedy."""
    checks = outcomes(RANK, RANK)
    assert {check.outcome for check in checks.values()} == {"PASSED"}
    assert {check.remedy for check in checks.values()} == {""}


@pytest.mark.parametrize(
    ("product", "shown"),
    [
        (Product(2.01, 2.0, 0), "2.01 eps"),
        (Product(0.4, 13.0, 0), "largest element 13.0 eps"),
        (Product(math.nan, math.nan, 5), "nan eps"),
        (None, "no result"),
    ],
)
def test_wrong_product_names_its_rank(product: Product | None, shown: str) -> None:
    """A product outside either bound, a NaN and a missing product fail, with rank and remedy."""
    products = {name: p for name in EPS if (p := product if name == "bf16" else GOOD)}
    check = outcomes(RANK, RankReport(software="torch", products=products, num_sums=8))["matrix product bf16"]
    assert check.outcome == "FAILED"
    assert shown in check.observed
    assert "rank 1" in check.observed
    assert "CUDA_VISIBLE_DEVICES" in check.remedy


def test_values_that_are_not_finite() -> None:
    """Values that are not finite fail a check of their own, which says where they are."""
    bad = RankReport(software="torch", products={"fp16": Product(math.nan, math.nan, 3)}, num_sums=8)
    check = outcomes(bad)["finite values"]
    assert (check.outcome, check.observed) == ("FAILED", "3 not finite in fp16 on rank 0")


@pytest.mark.parametrize(
    ("report", "observed"),
    [
        (RankReport(products={"fp32": GOOD}, num_sums=8, num_sums_wrong=2), "rank 0: 2 of 8 sums wrong"),
        (
            RankReport(products={"fp32": GOOD}, collective_failure="RuntimeError: no route"),
            "rank 0: RuntimeError: no route",
        ),
        (RankReport(products={"fp32": GOOD}), "rank 0: 0 of 0 sums wrong"),
    ],
)
def test_wrong_collectives(report: RankReport, observed: str) -> None:
    """A wrong sum, an exception and a collective that never ran all fail."""
    check = outcomes(report)["collectives"]
    assert (check.outcome, check.observed) == ("FAILED", observed)


def test_dead_device_blocks_the_rest() -> None:
    """A device that does not open fails once; what depends on it is blocked by it, never passed."""
    checks = outcomes(RANK, RankReport(device_failure="RuntimeError: CUDA error"))
    assert checks.pop("torch on the device").observed == "rank 1: RuntimeError: CUDA error"
    assert {check.outcome for check in checks.values()} == {"BLOCKED"}


def test_precision_that_the_device_lacks() -> None:
    """A precision that the hardware does not have is skipped with its reason."""
    turing = RankReport(products={"fp32": GOOD}, skipped={"tf32": "compute capability 7.5 is below 8.0"}, num_sums=8)
    check = outcomes(turing)["matrix product tf32"]
    assert (check.outcome, check.observed) == ("SKIPPED", "compute capability 7.5 is below 8.0")


def _die(kind: str, place: tuple[int, int], store: str, channel: Connection) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _hang(kind: str, place: tuple[int, int], store: str, channel: Connection) -> None:
    time.sleep(60)


def _die_in_collective(kind: str, place: tuple[int, int], store: str, channel: Connection) -> None:
    channel.send(RANK)
    channel.recv()
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    ("rank_main", "device_failure", "collective_failure"),
    [
        (_die, "the process died with exit code -9 and no result", ""),
        (_hang, "no result after 0.3 s", ""),
        (_die_in_collective, "", "the process died with exit code -9 and no result"),
    ],
)
def test_rank_without_a_result(
    rank_main: Callable[..., None], device_failure: str, collective_failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank that is killed or hangs is reported as such, where it happened and in bounded time."""
    monkeypatch.setattr(selftest, "rank_main", rank_main)
    monkeypatch.setattr(selftest, "RANK_LIMIT_S", 0.3 if rank_main is _hang else 30)
    (report,) = run_ranks("cpu", 1)
    assert (report.device_failure, report.collective_failure) == (device_failure, collective_failure)


ORPHANS = """
import os, signal
from harness.devices import selftest

def collective(report, *_):
    print(os.getpid(), flush=True)
    return report

selftest.check_collective = collective
selftest._full_report = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
selftest.run_ranks("cpu", 2)
"""


def test_ranks_end_with_a_killed_parent() -> None:
    """A self-test that is killed leaves no rank behind on the device."""
    done = subprocess.run([sys.executable, "-c", ORPHANS], capture_output=True, text=True, cwd=ROOT, check=False)
    # run() returns when the last rank has closed the pipe, that is, has ended.
    assert (done.returncode, len(done.stdout.split())) == (-signal.SIGKILL, 2)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a host without a GPU")
def test_cuda_without_a_gpu(capfd: pytest.CaptureFixture[str]) -> None:
    """Asking for a GPU that torch does not see is a failed check, not a traceback."""
    stdout = os.dup(1)
    assert main(["--device", "cuda", "--devices", "1"]) == 1
    os.dup2(stdout, 1)
    os.close(stdout)
    first = json.loads(capfd.readouterr().out)[0]
    assert first["outcome"] == "FAILED"
    assert "sees 0 GPUs" in first["observed"]
