"""The server reads one request a line, answers each, and takes what it started with it when it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.config import RunOptions
from tests.running import LIMIT_S, ROOT, TINY, shared


def served(*requests: dict[str, Any]) -> list[dict[str, Any]]:
    """Give a new server these requests at once; return its answers after the last process has ended."""
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "harness.engine.forkserver", str(writer)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, pass_fds=[writer], text=True) as server:
        os.close(writer)
        assert server.stdin is not None
        server.stdin.write("".join(json.dumps(request) + "\n" for request in requests))
        server.stdin.flush()
        answers, open_ids = [], {request["id"] for request in requests}
        with os.fdopen(reader) as lines:
            for line in lines:
                answers.append(json.loads(line))
                if answers[-1]["event"] == "ended":
                    open_ids.discard(answers[-1]["id"])
                if not open_ids:
                    break
        server.stdin.close()
        assert server.wait(LIMIT_S) == 0
    return answers


def request(name: str, folder: Path, **changes: Any) -> dict[str, Any]:
    """Return the request for one rank of TINY."""
    return {
        "id": name,
        "spec": msgspec.to_builtins(TINY),
        "options": msgspec.to_builtins(RunOptions()),
        "folder": str(folder / name),
        "cwd": str(folder),
        "environment": dict(os.environ),
        "log": str(folder / f"{name}.log"),
    } | changes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which a server was given a good request and several that go wrong, all at once."""
    with shared(tmp_path_factory, "served") as (folder, first):
        if first:
            (folder / "taken").mkdir()
            (folder / "taken" / "rank0.jsonl").touch()
            answers = served(
                request("good", folder),
                request("taken", folder),
                request("lost", folder, cwd=str(folder / "absent")),
                request("wrong", folder, spec={"speed": 5}),
                request("mute", folder, log=str(folder / "absent" / "log")),
            )
            (folder / "answers").write_text(json.dumps(answers))
    return folder


@pytest.fixture
def answers(folder: Path) -> Any:
    """Return what the server answered."""
    return json.loads((folder / "answers").read_text())


def code_of(answers: list[dict[str, Any]], name: str) -> int:
    """Return the exit code of a request's process."""
    [code] = [answer["code"] for answer in answers if answer.get("id") == name and answer["event"] == "ended"]
    return int(code)


def test_server_says_when_it_is_ready_and_what_it_starts(answers: list[dict[str, Any]]) -> None:
    """Ready once, a process id for each request, an exit code for each process."""
    assert answers[0] == {"event": "ready"}
    started = [answer for answer in answers if answer["event"] == "started"]
    assert len({answer["pid"] for answer in started}) == 5
    assert {answer["id"] for answer in started} == {"good", "taken", "lost", "wrong", "mute"}


def test_good_request_is_a_completed_rank(answers: list[dict[str, Any]], folder: Path) -> None:
    """Its output is in its log."""
    assert code_of(answers, "good") == 0
    assert "step=12 loss=" in (folder / "good.log").read_text()


def test_rank_that_is_refused_says_one_sentence(answers: list[dict[str, Any]], folder: Path) -> None:
    """Also before it can record anything."""
    assert code_of(answers, "taken") == 2
    assert (
        folder / "taken.log"
    ).read_text() == f"--out {folder}/taken: it already holds a run; name a folder that does not\n"


@pytest.mark.parametrize("name", ["lost", "wrong", "mute"])
def test_request_that_cannot_be_met_ends_its_process_alone(answers: list[dict[str, Any]], name: str) -> None:
    """The server goes on."""
    assert code_of(answers, name) != 0
    assert code_of(answers, "good") == 0
