"""Is a trace read as it comes: compressed, a bare array, in other encodings, with odd numbers; or refused?"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import UsageError
from harness.trace.normal import COPY, NO_CORRELATION
from harness.trace.torch_json import is_trace, read_trace
from tests.trace.made import ADD, Made, steps


def plain() -> dict[str, Any]:
    """Return a trace with everything."""
    return steps(3, compute=(0.1, 0.4), communication=(0.3, 0.6), copy=(0.7, 0.8), loading=(0.8, 1.0)).as_file()


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    """Return the trace with each event changed."""
    file = plain()
    for event in file["traceEvents"]:
        change(event)
    return json.dumps(file).encode()


def capitalised(event: dict[str, Any]) -> None:
    """Write categories as torch 1.8 did."""
    names = {"kernel": "Kernel", "gpu_memcpy": "Memcpy", "cuda_runtime": "Runtime", "cpu_op": "Operator"}
    event["cat"] = names.get(event.get("cat", ""), "Operator")


def with_texts(event: dict[str, Any]) -> None:
    """Write times as texts, and streams in words."""
    event["ts"] = str(event.get("ts", "N/A"))
    if "stream" in event.get("args", {}):
        event["args"]["stream"] = f"stream {event['args']['stream']}"


TEXT = json.dumps(plain())
FORMS: dict[str, bytes] = {
    "plain": TEXT.encode(),
    "compressed": gzip.compress(TEXT.encode()),
    "a bare array": json.dumps(plain()["traceEvents"]).encode(),
    "UTF-16": TEXT.encode("utf-16"),
    "a byte order mark": TEXT.encode("utf-8-sig"),
    "broken UTF-8": TEXT.replace("aten::mm", "aten::m\xff").encode("latin-1"),
    "backslashes of Windows": TEXT.replace('"A GPU"', '"C:\\Users\\A GPU"').encode(),
    "NaN": TEXT.replace('"schemaVersion": 1', '"schemaVersion": NaN').encode(),
    "keys after the events": TEXT[:-1].encode() + b', "traceName": "x"}',
    "capitalised categories": changed(capitalised),
    "texts for numbers": changed(with_texts),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same(form: str, tmp_path: Path) -> None:
    """The work, its launches and the host's waiting are those of the plain file."""
    (tmp_path / "trace").write_bytes(FORMS[form])
    trace = read_trace(tmp_path / "trace")
    assert len(trace.work.start) == len(trace.calls.start) == 9
    assert sorted(trace.work.kind.tolist()).count(COPY) == 3
    assert np.allclose(np.sort(trace.work.correlation), np.sort(trace.calls.correlation))
    assert set(trace.work.stream.tolist()) == {7, 20}
    assert (len(trace.steps.start), len(trace.loading.start)) == (3, 3)
    assert trace.work.end.max() - trace.work.start.min() == pytest.approx(2700)


def test_what_the_file_says_about_the_process(tmp_path: Path) -> None:
    """Rank, ranks and device; absent ones are unknown."""
    (tmp_path / "a").write_text(TEXT, encoding="utf-8")
    (tmp_path / "b").write_bytes(FORMS["a bare array"])
    told, bare = read_trace(tmp_path / "a"), read_trace(tmp_path / "b")
    assert (told.rank, told.num_ranks, told.gpu) == (1, 2, "A GPU")
    assert (bare.rank, bare.num_ranks, bare.gpu) == (None, None, "")


def test_a_kernel_without_a_launch_record(tmp_path: Path) -> None:
    """It is work all the same."""
    made = Made().work(ADD, 10, 20, launched=5)
    del made.events[1]["args"]
    trace = read_trace(made.write(tmp_path / "trace.json"))
    assert trace.work.correlation.tolist() == [NO_CORRELATION]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (gzip.compress(TEXT.encode())[:-200], "cut off or damaged"),
        (TEXT.encode()[:-200], "no JSON, or cut off"),
        (b'{"traceEvents": 3}', "no list traceEvents"),
        (b'{"other": []}', "no list traceEvents"),
    ],
)
def test_what_cannot_be_used_is_refused(data: bytes, told: str, tmp_path: Path) -> None:
    """One sentence with the file."""
    (tmp_path / "trace.json").write_bytes(data)
    with pytest.raises(UsageError, match=told) as raised:
        read_trace(tmp_path / "trace.json")
    assert "trace.json" in str(raised.value)


def test_what_may_be_a_trace() -> None:
    """By its beginning; a training log in JSON is none."""
    assert is_trace(TEXT[:500].encode())
    assert not is_trace(b'{"step": 1, "loss": 2.0}\n')
