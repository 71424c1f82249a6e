"""Is any file read without a crash: other encodings, damaged, empty, huge, or no log at all?"""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.logs.columns import MAX_POINTS
from harness.logs.read import read_log
from tests.logs.asked import causes_of, diagnosis_of, log_of, written
from tests.logs.curves import falling, healthy, lines
from tests.logs.formats import EVERY

TEXT = lines([*falling(3, 30), math.nan, math.nan])

WRITTEN = {
    "utf-8 with a mark": TEXT.encode("utf-8-sig"),
    "utf-16": TEXT.encode("utf-16"),
    "utf-16 without a mark": TEXT.encode("utf-16-le"),
    "utf-16, big end first": TEXT.encode("utf-16-be"),
    "crlf": TEXT.replace("\n", "\r\n").encode(),
    "lone cr": TEXT.replace("\n", "\r").encode(),
    "latin-1": ("Größe der Daten: übergroß\n" + TEXT).encode("latin-1"),
    "colours": "\n".join(f"\x1b[32m{line}\x1b[0m" for line in TEXT.split("\n")).encode(),
    "ranks": "\n".join(f"[rank0]: {line}" for line in TEXT.split("\n")).encode(),
    "ranks of slurm": "\n".join(f"0: {line}" for line in TEXT.split("\n")).encode(),
    "two ranks": "\n".join(f"[rank{rank}]: {line}" for line in TEXT.split("\n") for rank in (0, 1)).encode(),
    "timestamps": "\n".join(f"2025-03-04T10:00:00.123Z INFO train.py:55 {line}" for line in TEXT.split("\n")).encode(),
    "a cut last line": (TEXT + "\nstep 32 lo").encode(),
    "no line end": TEXT.rstrip("\n").encode(),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_every_writing_is_read(name: str, tmp_path: Path) -> None:
    """The same finding however the text is written."""
    assert causes_of(tmp_path, WRITTEN[name]) == ["loss_nan"]


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20,
        random.Random(1).randbytes(5000),
        bytes(4000),
        b"\x1f\x8b\x08\x00" + random.Random(2).randbytes(999),
    ],
)
def test_binary_is_refused(data: bytes, tmp_path: Path) -> None:
    """A picture or an archive is no log: one sentence that says what is accepted."""
    with pytest.raises(UsageError, match="no text file"):
        read_log(written(tmp_path, data))


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """A folder, and a file that is not there."""
    with pytest.raises(UsageError, match="a folder"):
        read_log(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_log(tmp_path / "absent.log")


@pytest.mark.parametrize(
    "text", ["", "\n\n\n", " \t\r\n", "\ufeff", "{", "[", "{}", "[]", "null", "epoch,loss\n", ",,,\n,,,\n"]
)
def test_nothing_is_not_enough(text: str, tmp_path: Path) -> None:
    """An empty file says what to log."""
    found = diagnosis_of(tmp_path, text)
    assert found.status == "not_enough_evidence"
    assert found.missing[0].command


NOT_LOGS = {
    "oom": "OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB. GPU 0 has 23.65 GiB, 1.66 GiB is free.",
    "nccl": "\n".join(f"node:1379562:{i} [0] NCCL INFO Channel 0{i}/02 : 0 1" for i in range(9)),
    "smi": "| N/A   48C    P0   353W / 500W |   7488MiB / 81920MiB |    100%      Default |\n" * 8,
    "torchrun": "torch.distributed.elastic: [ERROR] failed (exitcode: -9) local_rank: 0 (pid: 62498)\n"
    + 'Traceback (most recent call last):\n  File "train.py", line 8, in <module>\n    main()\n' * 3,
    "code": "import torch\n\ndef step(x):\n    loss = 0.0\n    lr = 1e-3\n    loss = float('nan')\n    return loss\n"
    * 6,
    "prose": "The loss is nan after some steps. We set the loss scale to 65536 and the loss was 2.3 at first.\n" * 2,
    "numbers": "\n".join(str(value) for value in falling(1, 50)),
    "words": "accuracy, loss, error\nare three words that name what is measured\n",
}


@pytest.mark.parametrize("name", NOT_LOGS)
def test_what_is_no_log_has_no_cause(name: str, tmp_path: Path) -> None:
    """Other texts are never forced into a cause."""
    assert causes_of(tmp_path, NOT_LOGS[name]) == ["not_enough_evidence"]


def test_too_short_says_so(tmp_path: Path) -> None:
    """Three losses are not enough to be healthy."""
    assert causes_of(tmp_path, lines([3.0, 2.5, 2.2])) == ["not_enough_evidence"]


@pytest.mark.parametrize("name", EVERY)
def test_damage_does_no_harm(name: str, tmp_path: Path) -> None:
    """Bytes that are lost, doubled or garbled never raise, and never make a run overfit."""
    text = EVERY[name](healthy(4))
    for seed in range(4):
        draw = random.Random(seed)
        damaged = bytearray(text.encode())
        for _ in range(15):
            start = draw.randrange(len(damaged))
            damaged[start : start + draw.randrange(9)] = bytes(
                draw.choices(b"0123456789.,:|{}[]\"' \nnaif", k=draw.randrange(9))
            )
        causes = causes_of(tmp_path, bytes(damaged[: draw.randrange(len(damaged) // 2, len(damaged))]))
        assert not {"overfitting", "underfitting", "loss_stuck", "input_pipeline"} & set(causes)


def test_long_lines_are_read_in_bounded_time(tmp_path: Path) -> None:
    """Lines of a megabyte, of every kind that could be slow to search."""
    long = [
        "a" * 10**6,
        "a_b " * 200_000,
        "loss " * 200_000,
        "1,2/3 " * 100_000,
        "[" * 10**6,
        "loss scale overflow " * 50_000,
    ]
    assert causes_of(tmp_path, "\n".join(long)) == ["not_enough_evidence"]


def test_many_lines_are_thinned(tmp_path: Path) -> None:
    """A column keeps a bounded number of points, the first and the last among them."""
    count = MAX_POINTS + 2001
    (run,) = log_of(tmp_path, "\n".join(f"step {i} loss {1 + 1 / (i + 1):.6f}" for i in range(count))).runs
    points = run.get("loss").points
    assert len(points) <= MAX_POINTS
    assert (points[0].line, points[-1].line) == (1, count)


def test_lines_that_are_of_no_use_are_counted_and_shown(tmp_path: Path) -> None:
    """Some of them, with their numbers."""
    log = log_of(tmp_path, "Loading the model\n" + lines([1.0, 0.9]) + "\nDone")
    assert (log.num_lines, log.num_unused, log.unused) == (4, 2, [(1, "Loading the model"), (4, "Done")])
