"""A run folder is read tolerantly: a run that died still has its records, and says how it ended."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.runs import EXITS, LATE, LOST, MAX_LINE_BYTES, ORDER, STOPPED, Run, read_run, relative_loss, write_exits

Write = Callable[..., Run]

DIED: dict[str, Any] = {}
"""Stands for a rank without a last record."""


def ended(state: str, message: str = "", **summary: Any) -> dict[str, Any]:
    """Return the last record of a rank."""
    return {"event": "end", "state": state, "message": message, "summary": summary}


@pytest.fixture
def written(tmp_path: Path) -> Write:
    """Return a function that writes one rank for each last record, and reads the folder."""

    def write(*ends: dict[str, Any], exits: dict[int, str] | None = None, world_size: Any = None) -> Run:
        for rank, end in enumerate(ends):
            start = {"event": "start", "world_size": len(ends) if world_size is None else world_size}
            steps = [{"event": "step", "step": n, "loss": 1.0 / n} for n in (1, 2)]
            lines = [json.dumps(record) for record in (start, *steps, end) if record]
            (tmp_path / f"rank{rank}.jsonl").write_text("\n".join(lines) + "\n")
        write_exits(tmp_path, exits or {})
        return read_run(tmp_path)

    return write


def test_completed_run_has_no_message(written: Write) -> None:
    """All ranks completed."""
    run = written(ended("completed", loss=0.5), ended("completed"))
    assert (run.state, run.message, run.value("loss")) == ("completed", "", 0.5)


@pytest.mark.parametrize("state", [state for state in ORDER if state != "completed"])
@pytest.mark.parametrize("order", [1, -1])
def test_one_rank_that_did_not_complete_decides(written: Write, state: str, order: int) -> None:
    """The run is not completed unless all its ranks are; the message names the rank and the reason."""
    run = written(*[ended("completed"), ended(state, "because")][::order])
    assert run.state == state
    assert run.message == f"rank {1 if order == 1 else 0} {state}: because"


@pytest.mark.parametrize(
    ("ends", "exits", "state", "first"),
    [
        (
            [ended("error", f"{LOST}: reset"), DIED],
            {1: "signal 9 (SIGKILL)"},
            "died",
            "rank 1 died: signal 9 (SIGKILL)",
        ),
        ([ended("error", "bug"), ended("error", f"{LOST}: reset")], {}, "error", "rank 0 error: bug"),
        ([ended("interrupted"), ended("error", f"{LOST}: reset")], {}, "interrupted", "rank 0 interrupted"),
        ([ended("interrupted"), ended("error", "bug")], {0: STOPPED}, "error", "rank 1 error: bug"),
        ([DIED, ended("oom", "no memory")], {0: STOPPED}, "oom", "rank 1 oom: no memory"),
        ([ended("interrupted", "KeyboardInterrupt")], {0: f"{LATE} 5 s"}, "timeout", f"rank 0 timeout: {LATE} 5 s"),
        ([DIED], {0: f"{LATE} 5 s"}, "timeout", f"rank 0 timeout: {LATE} 5 s"),
        ([DIED], {0: "exit code 3"}, "died", "rank 0 died: exit code 3"),
        ([DIED], {}, "died", "rank 0 died: its records end early"),
        ([ended("diverged", "nan")], {0: "exit code 1"}, "diverged", "rank 0 diverged: nan"),
    ],
)
def test_cause_comes_before_its_consequence(
    written: Write, ends: list[dict[str, Any]], exits: dict[int, str], state: str, first: str
) -> None:
    """A rank that was left alone, or stopped for that, does not hide the one that failed first."""
    run = written(*ends, exits=exits)
    assert run.state == state
    assert run.message.startswith(first)


def test_ranks_that_all_lost_each_other_are_an_error(written: Write) -> None:
    """A network that failed leaves only consequences."""
    run = written(ended("error", f"{LOST}: reset"), ended("error", f"{LOST}: reset"))
    assert run.state == "error"


def test_rank_without_a_file_is_missing(written: Write) -> None:
    """The first record says how many ranks there were."""
    run = written(ended("completed"), world_size=3)
    assert run.state == "died"
    assert run.message == "rank 1 left no record; rank 2 left no record"


def test_missing_rank_shows_how_it_ended_and_its_last_output(written: Write, tmp_path: Path) -> None:
    """What a process wrote before it could record anything is all there is."""
    (tmp_path / "rank1.log").write_text("Traceback\nValueError: bad\n")
    run = written(ended("completed"), exits={1: "exit code 1"}, world_size=2)
    assert run.message == "rank 1 left no record: exit code 1; its last output: Traceback | ValueError: bad"


@pytest.mark.parametrize("world_size", ["many", -1, 0, 10**15, None, 1.5, True])
def test_impossible_number_of_ranks_is_not_believed(written: Write, world_size: Any) -> None:
    """A broken first record neither raises nor makes a list of a billion ranks."""
    assert written(ended("completed"), world_size=world_size).state == "completed"


def test_exits_outlive_the_launcher(written: Write, tmp_path: Path) -> None:
    """Who reads the folder later sees the signal too."""
    written(DIED, exits={0: "signal 9 (SIGKILL)"})
    assert read_run(tmp_path).exits == {0: "signal 9 (SIGKILL)"}


def test_run_that_ended_by_itself_has_no_exits(written: Write, tmp_path: Path) -> None:
    """An ordinary folder holds records only."""
    written(ended("completed"))
    assert not (tmp_path / EXITS).exists()


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b'{"x": 1}', b"\xff", b"[" * 100_000])
def test_broken_exits_are_none(written: Write, tmp_path: Path, content: bytes) -> None:
    """The records speak for themselves."""
    (tmp_path / EXITS).write_bytes(content)
    assert written(ended("completed")).exits == {}


@pytest.mark.parametrize(
    "line",
    [
        b'{"event": "st',
        b"\x00\xff\n",
        b"5\n",
        b"[]\n",
        b"null\n",
        b"NaN\n",
        b"\n",
        b"[" * 50_000 + b"\n",
        b"9" * 5000 + b"\n",
    ],
)
def test_unusable_line_is_counted_and_passed_over(written: Write, tmp_path: Path, line: bytes) -> None:
    """Half a line, as a killed process leaves it, hides nothing that came before."""
    written(DIED)
    with (tmp_path / "rank0.jsonl").open("ab") as file:
        file.write(line)
    [rank] = read_run(tmp_path).ranks
    assert (len(rank.records), rank.unusable_lines) == (3, 1)


def test_endless_line_is_not_kept(written: Write, tmp_path: Path) -> None:
    """A line longer than any record is unusable in pieces."""
    written(DIED)
    with (tmp_path / "rank0.jsonl").open("ab") as file:
        file.write(b"x" * (2 * MAX_LINE_BYTES + 5) + b"\n" + json.dumps(ended("completed")).encode() + b"\n")
    [rank] = read_run(tmp_path).ranks
    assert (rank.state, rank.unusable_lines) == ("completed", 3)


@pytest.mark.parametrize("state", ["perfect", 5, None, ["completed"], {}])
def test_unknown_state_is_no_state(written: Write, state: Any) -> None:
    """Only the states that the engine knows count."""
    assert written(ended(state)).state == "died"


@pytest.mark.parametrize("summary", [None, 5, [], "x"])
def test_summary_that_is_none_holds_no_value(written: Write, summary: Any) -> None:
    """A missing number is None, never an exception."""
    run = written({"event": "end", "state": "completed", "summary": summary})
    assert (run.summary, run.value("loss")) == ({}, None)


@pytest.mark.parametrize(
    ("written_value", "value"),
    [
        ("nan", "nan"),
        ("inf", "inf"),
        ("-inf", "-inf"),
        (3, "3.0"),
        (True, "None"),
        ("5", "None"),
        (None, "None"),
        (10**400, "None"),
    ],
)
def test_values_are_numbers_or_none(written: Write, written_value: Any, value: str) -> None:
    """What JSON cannot say is written as text; anything else is no number."""
    assert str(written(ended("completed", loss=written_value)).value("loss")) == value


def test_series_keeps_step_and_value(written: Write) -> None:
    """One number over the run, without records that lack it."""
    run = written(ended("completed"))
    assert run.series("step", "loss") == [(1, 1.0), (2, 0.5)]
    assert run.series("step", "speed") == []


@pytest.mark.parametrize("name", ["absent", "empty", "rank0.jsonl"])
def test_what_is_no_run_folder_is_refused(tmp_path: Path, name: str) -> None:
    """An empty folder, a file and nothing at all are each a sentence."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "rank0.jsonl").touch()
    with pytest.raises(UsageError, match=r"no run folder: it has no rank0\.jsonl"):
        read_run(tmp_path / name)


def test_empty_record_file_is_a_run_that_died(tmp_path: Path) -> None:
    """The process was killed before its first record."""
    (tmp_path / "rank0.jsonl").touch()
    run = read_run(tmp_path)
    assert (run.state, run.message, run.start, run.summary) == ("died", "rank 0 died: its records end early", {}, {})


def test_other_files_are_no_ranks(written: Write, tmp_path: Path) -> None:
    """Only ``rank<N>.jsonl`` is read."""
    for name in ("rankx.jsonl", "rank\u00b2.jsonl", "rank.jsonl", "rank0.jsonl.bak"):
        (tmp_path / name).touch()
    assert [rank.rank for rank in written(ended("completed")).ranks] == [0]


def test_last_output_is_the_end_of_a_long_log(written: Write, tmp_path: Path) -> None:
    """Torch's C++ frames say nothing to a user, and a huge log is not read whole."""
    (tmp_path / "rank0.log").write_text("first\n" + "noise\n" * 100_000 + "frame #7: c10\nlast words\n")
    message = written(DIED).message
    assert message.endswith("noise | last words")
    assert len(message) < 1600


@pytest.mark.parametrize(
    ("mine", "theirs", "goal", "expected"),
    [
        (0.8, 1.0, "max", 0.2),
        (0.8, 1.0, "min", -0.2),
        (-1.2, -1.0, None, 0.2),
        (0.5, 0.0, "min", 0.5e12),
        (math.nan, 1.0, "max", math.inf),
        (-math.inf, math.inf, "max", math.inf),
        (1.0, math.nan, "max", None),
        (None, 1.0, "max", None),
        (1.0, None, "min", None),
    ],
)
def test_relative_loss_is_positive_when_the_metric_is_worse(
    mine: float | None, theirs: float | None, goal: str | None, expected: float | None
) -> None:
    """Whatever the sign and the goal; no finite number is infinitely worse, and nothing to compare with is unknown."""
    found = relative_loss(mine, theirs, goal)
    assert found == (None if expected is None else pytest.approx(expected))
