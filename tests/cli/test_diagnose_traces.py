"""Does ``gpu-exam diagnose trace.json.gz`` give the documented output and exit codes?"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from tests.trace.made import Made, steps

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
    """One sentence; several ranks at once are not judged."""
    one, other = Made().write(tmp_path / "a.json"), steps(**HOST).write(tmp_path / "b.json")
    assert main(["diagnose", str(one), str(other)]) == 2
    assert "one trace is accepted" in capsys.readouterr().err
