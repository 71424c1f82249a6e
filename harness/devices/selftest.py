"""Does this device compute and communicate correctly? Run as a process of its own, before anything is measured.

    python -m harness.devices.selftest --device cpu|cuda [--devices N]

prints one JSON list of checks on stdout and exits with 1 when one of them failed. A crash of the device or its
libraries takes this process down and nothing else.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Literal

import msgspec
import torch
import torch.distributed as dist
from torch import Tensor

from harness.devices.selftest_verdict import EPS, Product, RankReport, judge

Kind = Literal["cpu", "cuda"]
Rank = tuple[BaseProcess, Connection]
"""A process and the channel to it."""

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SIZE = 256
"""Side of the square matrices: a tile of every tensor core, and below a millisecond on any device."""
SEED = 20240229
NUM_SUMS = 1024
AMPERE = (8, 0)
"""The first compute capability with TF32 and bf16 in hardware."""
CPU_RANKS = 2
"""Two ranks exercise every line that more would, on any laptop."""
FORKS = sys.platform == "linux"
RANK_LIMIT_S = 120.0
"""Origin: eight cold CUDA contexts and the first NCCL communicator take about 30 s on a busy host; four times that."""


def main(argv: list[str] | None = None) -> int:
    """Run the checks, write them to stdout as JSON, return 1 when one failed."""
    parser = argparse.ArgumentParser(description="is what the device computes and communicates correct?")
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--devices", type=int, default=1, help="number of GPUs; a cpu always has two ranks")
    args = parser.parse_args(argv)
    # NCCL and friends write to descriptor 1; keep it for the result alone.
    result = os.dup(1)
    os.dup2(2, 1)
    ranks = CPU_RANKS if args.device == "cpu" else max(1, args.devices)
    checks = judge(run_ranks(args.device, ranks), backend_name(args.device))
    with os.fdopen(result, "wb") as stream:
        stream.write(msgspec.json.encode(checks) + b"\n")
    return 0 if all(check.outcome in {"PASSED", "SKIPPED"} for check in checks) else 1


def run_ranks(kind: Kind, world_size: int) -> list[RankReport]:
    """Run one process per device; a rank that dies or hangs has a report that says so."""
    deadline = time.monotonic() + RANK_LIMIT_S
    with tempfile.TemporaryDirectory() as folder:
        ranks = [_start(kind, (rank, world_size), f"{folder}/store") for rank in range(world_size)]
        reports = [_device_report(rank, deadline) for rank in ranks]
        # A collective with a rank missing would only hang.
        if not any(report.device_failure for report in reports):
            for _, channel in ranks:
                with suppress(OSError):
                    channel.send("all devices work")
            reports = [_full_report(rank, before, deadline) for rank, before in zip(ranks, reports, strict=True)]
        for process, _ in ranks:
            process.kill()
            process.join()
    return reports


def rank_main(kind: Kind, place: tuple[int, int], store: str, channel: Connection) -> None:
    """Check one device, and after the parent's word the collectives; ``place`` is (rank, world size)."""
    torch.set_num_threads(1)
    report = check_device(kind, place[0])
    # A broken channel means that the parent is gone.
    with suppress(EOFError, OSError):
        channel.send(report)
        _wait_for_parent(channel)
        channel.send(check_collective(report, kind, place, store))
        # Stay until the parent ends this process: who leaves first closes connections that peers still read from.
        _wait_for_parent(channel)
    os._exit(0)


def check_device(kind: Kind, rank: int) -> RankReport:
    """Compute the product of every precision that the device has."""
    products: dict[str, Product] = {}
    try:
        device = _open_device(kind, rank)
        skipped = {precision: why for precision in DTYPES if (why := _lacks(precision, device))}
        for precision in DTYPES:
            if precision not in skipped:
                products[precision] = measure_product(precision, device)
        return RankReport(software=_software(device), products=products, skipped=skipped)
    except Exception as error:  # process boundary: whatever a sick device raises belongs in the report
        return RankReport(products=products, device_failure=_one_line(error))


def check_collective(report: RankReport, kind: Kind, place: tuple[int, int], store: str) -> RankReport:
    """Add up values whose sum is known, and exact in fp32, over all ranks; ``place`` is (rank, world size)."""
    rank, world_size = place
    try:
        dist.init_process_group(
            "nccl" if kind == "cuda" else "gloo",
            init_method=f"file://{store}",
            rank=rank,
            world_size=world_size,
            timeout=timedelta(seconds=RANK_LIMIT_S / 2),
        )
        ramp = torch.arange(
            1, NUM_SUMS + 1, dtype=torch.float32, device=torch.device(kind, rank if kind == "cuda" else 0)
        )
        total = ramp * (rank + 1)
        dist.all_reduce(total)
        # Reading the number waits for the device.
        num_wrong = int((total != ramp * (world_size * (world_size + 1) // 2)).sum())
        return replace(report, num_sums=NUM_SUMS, num_sums_wrong=num_wrong)
    except Exception as error:  # process boundary: whatever the library raises belongs in the report
        return replace(report, collective_failure=_one_line(error))


def measure_product(precision: str, device: torch.device) -> Product:
    """Multiply two seeded matrices on ``device`` in one precision and compare with float64 on the host."""
    torch.backends.cuda.matmul.fp32_precision = "tf32" if precision == "tf32" else "ieee"
    generator = torch.Generator().manual_seed(SEED)
    a, b = (torch.randn(SIZE, SIZE, generator=generator, dtype=torch.float64) for _ in range(2))
    dtype = DTYPES[precision]
    # Rounded on the host, so that only the product is the device's; the copy back waits for it.
    result = (a.to(dtype).to(device) @ b.to(dtype).to(device)).cpu()
    return compare(result, a @ b, EPS[precision])


def compare(result: Tensor, reference: Tensor, eps: float) -> Product:
    """Return the errors of ``result`` against a float64 ``reference``, in units of ``eps``."""
    error = result.double() - reference
    norm = float(reference.norm())
    rms = norm / reference.numel() ** 0.5
    return Product(
        error_eps=float(error.norm()) / norm / eps,
        largest_eps=float(error.abs().max()) / rms / eps,
        num_not_finite=int((~result.isfinite()).sum()),
    )


def backend_name(kind: Kind) -> str:
    """Return the library that the ranks communicate through, with its version where it has one."""
    if kind == "cpu":
        return "gloo"
    version: tuple[int, ...] = torch.cuda.nccl.version() if dist.is_nccl_available() else ()  # type: ignore[no-untyped-call]
    return "NCCL " + (".".join(map(str, version)) or "missing")


def _start(kind: Kind, place: tuple[int, int], store: str) -> Rank:
    # A fork saves one import of torch a rank; nothing has started CUDA or computed in this process.
    context = multiprocessing.get_context("fork") if FORKS else multiprocessing.get_context("spawn")
    channel, far_end = context.Pipe()
    process = context.Process(target=rank_main, args=(kind, place, store, far_end), daemon=True)
    process.start()
    far_end.close()
    return process, channel


def _wait_for_parent(channel: Connection) -> None:
    """Return after the parent's word; raise EOFError when the parent has ended, however it did."""
    parent = multiprocessing.parent_process()
    if parent is None or channel not in wait([channel, parent.sentinel]):
        raise EOFError
    channel.recv()


def _device_report(rank: Rank, deadline: float) -> RankReport:
    answer = _receive(rank, deadline)
    return RankReport(device_failure=answer) if isinstance(answer, str) else answer


def _full_report(rank: Rank, before: RankReport, deadline: float) -> RankReport:
    answer = _receive(rank, deadline)
    return replace(before, collective_failure=answer) if isinstance(answer, str) else answer


def _receive(rank: Rank, deadline: float) -> RankReport | str:
    """Return the rank's next report, or why there is none."""
    process, channel = rank
    try:
        if channel.poll(max(0.0, deadline - time.monotonic())):
            report: RankReport = channel.recv()
            return report
    except (EOFError, OSError):
        process.join()
        return f"the process died with exit code {process.exitcode} and no result"
    return f"no result after {RANK_LIMIT_S:g} s"


def _open_device(kind: Kind, rank: int) -> torch.device:
    if kind == "cpu":
        return torch.device("cpu")
    if torch.cuda.device_count() <= rank:
        built = torch.version.cuda or "no CUDA at all"
        raise RuntimeError(f"torch {torch.__version__}, built for {built}, sees {torch.cuda.device_count()} GPUs")
    torch.cuda.set_device(rank)
    return torch.device("cuda", rank)


def _lacks(precision: str, device: torch.device) -> str:
    """Say why the device has no such precision; empty when it has."""
    if precision == "tf32" and device.type == "cpu":
        return "a CPU has no TF32"
    if precision in {"tf32", "bf16"} and device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        return "" if capability >= AMPERE else f"compute capability {capability[0]}.{capability[1]} is below 8.0"
    return ""


def _software(device: torch.device) -> str:
    if device.type == "cpu":
        return f"torch {torch.__version__} on {torch.backends.cpu.get_cpu_capability()}"
    major, minor = torch.cuda.get_device_capability(device)
    name = torch.cuda.get_device_name(device)
    return f"torch {torch.__version__}, CUDA {torch.version.cuda}, {name} (compute capability {major}.{minor})"


def _one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


if __name__ == "__main__":
    sys.exit(main())
