"""Does the check of a log see every change of the files beside it, and read no others?"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from harness.observe.canonical import digest
from harness.observe.evidence import FILE_NAME, Entry, EvidenceLog, verify


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a log of one check that has an artefact."""
    folder = tmp_path / "log"
    with EvidenceLog.open(folder) as log:
        place = log.environment({"cpu": "a"})
        for name in ("0.txt", "1.txt"):
            (folder / name).write_text(name)
        check = Entry(
            command=["x"], environment=place, expected=1, observed=1, verdict="PASSED", artifacts=[Path("0.txt")]
        )
        log.append(check)
        log.close(1, 1)
    return folder


def name_artefact(folder: Path, path: str, sha256: str) -> None:
    """Give the check another artefact, and the log a chain that is right again."""
    first, check, end = (json.loads(line) for line in (folder / FILE_NAME).read_text().splitlines())
    check["artifacts"] = [{"path": path, "sha256": sha256}]
    check["hash"] = digest({key: value for key, value in check.items() if key != "hash"})
    end["prev"] = end["observed"]["head"] = check["hash"]
    end["hash"] = digest({key: value for key, value in end.items() if key != "hash"})
    (folder / FILE_NAME).write_text("".join(json.dumps(record) + "\n" for record in (first, check, end)))


def replace_file(path: Path, by: str) -> None:
    """Replace a file by something else."""
    path.unlink()
    if by == "folder":
        path.mkdir()
    elif by == "pipe":
        os.mkfifo(path)
    elif by == "other content":
        path.write_text("other")
    elif by.startswith("link to "):
        path.symlink_to(by.removeprefix("link to "))


@pytest.mark.parametrize(
    ("by", "problem"),
    [
        ("other content", "was changed: its SHA-256 differs"),
        ("nothing", "is missing"),
        ("folder", "is missing"),
        ("pipe", "is missing"),
        ("link to 1.txt", "was changed: its SHA-256 differs"),
        ("link to /dev/zero", "is outside the evidence folder"),
        ("link to 0.txt", "is not the name of a file"),
    ],
)
def test_swapped_artefact_is_noticed(folder: Path, by: str, problem: str) -> None:
    """A file that was changed, removed or replaced by something else is a problem, and is never waited for."""
    replace_file(folder / "0.txt", by)
    assert verify(folder).problems[0].startswith(f"line 2: artefact '0.txt' {problem}")


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "/etc/passwd",
        "a/../../secret.txt",
        "link.txt",
        "link/secret.txt",
        "\0",
        "\ud800",
        "x" * 5000,
        "",
    ],
)
def test_artefact_outside_the_folder_is_not_read(folder: Path, path: str) -> None:
    """A path that leads out of the folder, or nowhere, is a problem even in a chain that is otherwise right."""
    (folder.parent / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(folder.parent / "secret.txt")
    (folder / "link").symlink_to(folder.parent)
    sha256 = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
    name_artefact(folder, path, sha256)
    [problem] = verify(folder).problems
    assert problem.startswith("line 2: artefact ")
    assert problem.isprintable()


def test_moved_folder_still_verifies(folder: Path) -> None:
    """Artefacts are found relative to the log, so a copy on another machine verifies too."""
    shutil.move(folder, folder.parent / "elsewhere")
    assert verify(folder.parent / "elsewhere").ok


def test_artefact_in_a_subfolder_is_found(folder: Path) -> None:
    """A path with folders in it is read; the hash decides."""
    (folder / "runs").mkdir()
    (folder / "0.txt").rename(folder / "runs" / "0.txt")
    sha256 = json.loads((folder / FILE_NAME).read_text().splitlines()[1])["artifacts"][0]["sha256"]
    name_artefact(folder, "runs/0.txt", sha256)
    assert verify(folder).ok
