"""Does ``gpu-exam diagnose trace.json.gz`` give the documented output and exit codes?"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from tests.trace.made import steps

HOST: dict[str, Any] = {"compute": (0.5, 1.0)}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("parts", "status", "code"), [({"compute": (0.0, 0.97)}, "healthy", 0), (HOST, "diagnosed", 1), ({}, "not", 3)]
)
def test_trace_status_and_exit_code(
    *, packed: bool, parts: dict[str, Any], status: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Packed or not; the words open with the status and end with where the time went."""
    path = steps(**parts).write(tmp_path / "trace.json")
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    assert main(["diagnose", str(path)]) == code
    out = capsys.readouterr().out
    assert out.startswith(f"status: {status}")
    assert ("window: 20 ms, 20 step(s); compute" in out) == (status != "not")


def test_the_json_of_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The fields of every diagnosis, and those of a trace; the shares add up to 1."""
    main(["diagnose", str(steps(**HOST).write(tmp_path / "trace.json")), "--json"])
    data = json.loads(capsys.readouterr().out)
    assert set(data) >= {"status", "findings", "missing", "communication_overlap", "top_kernels", "window"}
    assert set(data["tensor_core"]) == {"half", "tf32", "simt", "unknown"}
    shares = data["shares"]
    assert set(shares["idle"]) == {"input", "host", "allocator", "sync", "unattributed"}
    total = sum(value for value in shares.values() if isinstance(value, float)) + sum(shares["idle"].values())
    assert total == pytest.approx(1)


def test_a_trace_beside_other_files_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence."""
    trace, log = steps(**HOST).write(tmp_path / "a.json"), tmp_path / "b.log"
    log.write_text("step 1 loss 2.0\n", encoding="utf-8")
    assert main(["diagnose", str(trace), str(log)]) == 2
    assert "the traces of one job are accepted" in capsys.readouterr().err


@pytest.mark.parametrize("as_folder", [True, False])
def test_the_ranks_of_a_job(*, as_folder: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder or files; a row for each rank, and the ranks that are missing."""
    for rank, talk in enumerate((0.5, 0.5, 0.05)):
        made = steps(compute=(0.0, 0.5), communication=(0.5, 0.5 + talk)).as_file()
        made["distributedInfo"] = {"rank": rank, "world_size": 4}
        (tmp_path / f"{rank}.json").write_text(json.dumps(made), encoding="utf-8")
    paths = [str(tmp_path)] if as_folder else [str(path) for path in sorted(tmp_path.iterdir())]
    assert main(["diagnose", *paths]) == 1
    out = capsys.readouterr().out
    assert "straggler: straggler_rank" in out
    assert "no trace of rank 3" in out
    assert "  2     50.0%    5.0%" in out
