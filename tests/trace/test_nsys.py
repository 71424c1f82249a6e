"""Is a SQLite export of Nsight Systems read, whatever tables and columns its version has?"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.trace.breakdown import break_down
from harness.trace.diagnosis import diagnose_trace
from harness.trace.normal import NO_CORRELATION
from harness.trace.read import is_trace, read_trace

NAMES = {
    1: "volta_sgemm_128x64_nn",
    2: "cudaLaunchKernel_v7000",
    3: "step 1",
    4: "cudaMemcpyAsync_v3020",
    5: "load batch",
}

KERNEL = "start, end, deviceId, streamId, correlationId, demangledName, shortName"


def exported(path: Path, *, kernels: str = KERNEL, ranges: bool = True, steps: int = 30) -> Path:
    """Write steps of a millisecond: a batch is loaded for 0.3 ms, copied for 0.1 ms, and computed on for 0.5 ms."""
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", NAMES.items())
        database.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({kernels})")
        database.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, streamId, correlationId, copyKind)"
        )
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, nameId, correlationId)")
        database.execute("CREATE TABLE TARGET_INFO_GPU (id, name)")
        database.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 'A GPU')")
        if ranges:
            database.execute("CREATE TABLE NVTX_EVENTS (start, end, eventType, text, textId)")
        for step in range(steps):
            at, ids = 5_000_000_000 + step * 1_000_000, (2 * step + 1, 2 * step + 2)
            values = {"start": at + 400_000, "end": at + 900_000, "deviceId": 0, "streamId": 7, "correlationId": ids[0]}
            row = [(values | {"demangledName": 1, "shortName": 1})[name] for name in kernels.split(", ")]
            marks = ", ".join("?" * len(row))
            database.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({marks})", row)
            copy = (at + 300_000, at + 400_000, 0, 7, ids[1], 1)
            database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, ?, ?, ?, ?)", copy)
            calls = [(at + 310_000, at + 315_000, 2, ids[0]), (at + 299_000, at + 300_000, 4, ids[1])]
            database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?)", calls)
            if ranges:
                told = [
                    (at, at + 1_000_000, 59, None, 3),
                    (at, at + 300_000, 59, "load batch", None),
                    (at, None, 39, "x", 0),
                ]
                database.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?)", told)
    return path


@pytest.mark.parametrize("kernels", [KERNEL, "start, end, deviceId, correlationId, demangledName, streamId"])
def test_work_calls_and_ranges(kernels: str, tmp_path: Path) -> None:
    """Names come from the table of texts, without the version of the call; a column may be missing."""
    trace = read_trace(exported(tmp_path / "a.sqlite", kernels=kernels))
    assert is_trace(tmp_path / "a.sqlite")
    assert set(trace.names) == {"volta_sgemm_128x64_nn", "cudaLaunchKernel", "cudaMemcpyAsync", "Memcpy HtoD"}
    assert (len(trace.work.start), len(trace.calls.start), len(trace.steps.start), len(trace.loading.start)) == (
        60,
        60,
        30,
        30,
    )
    assert NO_CORRELATION not in trace.work.correlation
    assert trace.gpu == "A GPU"


def test_shares_of_an_export(tmp_path: Path) -> None:
    """Nanoseconds; loading is the largest loss."""
    trace = read_trace(exported(tmp_path / "a.sqlite"))
    found = break_down(trace)
    assert found.compute == pytest.approx(0.5)
    assert found.exposed_copy == pytest.approx(0.1)
    assert found.idle["input"] == pytest.approx(0.3)
    assert diagnose_trace(trace).findings[0].category == "input_pipeline"


def test_an_export_without_ranges(tmp_path: Path) -> None:
    """The window is that of the device work, and the loss the host's."""
    result = diagnose_trace(read_trace(exported(tmp_path / "a.sqlite", ranges=False)))
    assert result.window["steps"] == 0
    assert result.findings[0].category == "host_overhead"


@pytest.mark.parametrize("text", ["CREATE TABLE other (id)", ""])
def test_another_database_is_refused(text: str, tmp_path: Path) -> None:
    """One sentence that says how to record."""
    with sqlite3.connect(tmp_path / "a.sqlite") as database:
        database.execute(text or "CREATE TABLE StringIds (id, value)")
    with pytest.raises(UsageError, match="--trace=cuda,nvtx"):
        read_trace(tmp_path / "a.sqlite")


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    """No traceback."""
    whole = exported(tmp_path / "a.sqlite").read_bytes()
    (tmp_path / "b.sqlite").write_bytes(whole[:5000])
    with pytest.raises(UsageError, match="damaged"):
        read_trace(tmp_path / "b.sqlite")
