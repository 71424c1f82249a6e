"""Does ``gpu-exam diagnose`` give the documented exit codes, JSON and words for real runs and for damaged ones?"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.cli.words import EXIT_CODES

RunFolder = Callable[[str], Path]

CAUSE = "needless_scaler_with_bf16"

CASES = [
    ("half", "reference", "healthy", 0),
    ("sick", "reference", "diagnosed", 1),
    ("alone", "", "not_enough_evidence", 3),
    ("other", "reference", "inconclusive", 3),
]
"""Run, its reference, what is said about it, exit code."""


def words(run_folder: RunFolder, run: str, reference: str, *flags: str) -> list[str]:
    """Return the command line of a diagnosis."""
    more = ["--reference", str(run_folder(reference))] if reference else []
    return ["diagnose", str(run_folder(run)), *more, *flags]


@pytest.mark.parametrize(("run", "reference", "status", "code"), CASES)
def test_status_and_exit_code(
    run_folder: RunFolder, capsys: pytest.CaptureFixture[str], run: str, reference: str, status: str, code: int
) -> None:
    """Healthy is 0, a finding is 1, and what cannot be decided is 3; the words open with it."""
    assert main(words(run_folder, run, reference)) == code == EXIT_CODES[status]
    assert capsys.readouterr().out.startswith(f"status: {status.replace('_', ' ')}")


@pytest.mark.parametrize(("run", "reference", "status", "code"), CASES)
def test_json_is_the_contract(
    run_folder: RunFolder, capsys: pytest.CaptureFixture[str], run: str, reference: str, status: str, code: int
) -> None:
    """--json is one object with status, findings and missing, each with its documented fields."""
    assert main(words(run_folder, run, reference, "--json")) == code
    data = json.loads(capsys.readouterr().out)
    assert data["status"] == status
    assert (status in {"diagnosed", "inconclusive"}) == bool(data["findings"])
    for finding in data["findings"]:
        assert set(finding) >= {"category", "cause", "confidence", "evidence", "confirm", "action"}
        assert 0 < finding["confidence"] <= 1
        assert finding["evidence"]
        assert all(set(e) == {"name", "value", "unit", "threshold", "source"} for e in finding["evidence"])
    assert all(set(m) == {"observation", "needed_for", "command"} for m in data["missing"])


def test_finding_in_json(run_folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """The first finding names category and cause, and every number that decided it."""
    main(words(run_folder, "sick", "", "--json"))
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["category"], finding["cause"]) == ("precision", CAUSE)
    assert {"name": "needless_scaled_share", "value": 1.0, "unit": "share"}.items() <= finding["evidence"][0].items()


def test_finding_in_words(run_folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """A person reads the cause, the numbers with their bounds, how to confirm it and what to do."""
    main(words(run_folder, "sick", "reference"))
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(f"precision: {CAUSE} (confidence ") for line in lines)
    assert any(line.startswith("  numbers  needless_scaled_share = 1 share (>= ") for line in lines)
    assert any(line.startswith("  confirm  ") for line in lines)
    assert any(line.startswith("  to do    ") for line in lines)


def test_missing_evidence_names_its_command(run_folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """What is missing comes with the command that produces it."""
    main(words(run_folder, "alone", "", "--verbose"))
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("  missing  for autocast_cache_no_grad: weights without a gradient that have one in fp32")
    command = next(line for line in lines[at:] if "to get it: " in line)
    assert command.startswith("           to get it: python train.py --size tiny")
    assert "--precision fp32" in command


def test_uncontrolled_comparison_names_every_difference(
    run_folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reference that differs in more than the declared part decides nothing, and each difference is told."""
    main(words(run_folder, "other", "reference"))
    out = capsys.readouterr().out
    assert all(part in out for part in ("batch_size: 32 and 64", "lr: 0.01 and 0.001", "seed: 7 and 42"))


def test_declared_parts_may_differ(run_folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """Parts that the user declares are no difference, spelled as flags or as names."""
    main(words(run_folder, "other", "reference", "--declared", "precision, lr,seed,batch-size", "--json"))
    assert json.loads(capsys.readouterr().out)["status"] == "healthy"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["absent"], "absent: no run folder"),
        (["empty"], "empty: no run folder"),
        (["no_lines"], "no_lines: no run folder: none of the 0 line(s) in it is a record"),
        (["garbage"], "garbage: no run folder: none of the 2 line(s) in it is a record"),
        (["good", "--reference", "absent"], "absent: no run folder"),
        (["good", "--reference", "garbage"], "garbage: no run folder: none of the 2 line(s) in it is a record"),
        (
            ["good", "--declared", "speed"],
            "--declared: unknown part 'speed' (did you mean 'seed'?); known are: workload, size, precision",
        ),
        (["good", "--declared", ""], "--declared: unknown part ''; known are: workload, size, precision"),
    ],
)
def test_unusable_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: list[str], sentence: str
) -> None:
    """Input that is no run is exit code 2 and one sentence that names it."""
    contents = {"no_lines": b"", "garbage": b"\x00\xff{\n[1, 2]\n", "good": b'{"event": "end", "state": "completed"}\n'}
    for name, content in contents.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "rank0.jsonl").write_bytes(content)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    assert main(["diagnose", *given]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"gpu-exam diagnose: error: {sentence}")
    assert (len(captured.err.splitlines()), captured.out) == (1, "")


@pytest.fixture
def damaged(run_folder: RunFolder, tmp_path: Path) -> Callable[[Callable[[list[str]], list[str]]], Path]:
    """Return a run folder whose records were changed."""

    def damage(change: Callable[[list[str]], list[str]]) -> Path:
        lines = (run_folder("sick") / "rank0.jsonl").read_text().splitlines(keepends=True)
        (tmp_path / "rank0.jsonl").write_text("".join(change(lines)))
        return tmp_path

    return damage


DAMAGES: dict[str, Callable[[list[str]], list[str]]] = {
    "cut off": lambda lines: [*lines[:-1], lines[-1][:40]],
    "no end": lambda lines: lines[:-1],
    "no start": lambda lines: lines[1:],
    "garbage between": lambda lines: [lines[0], "not json\n", *lines[1:]],
    "start alone": lambda lines: lines[:1],
    "numbers as texts": lambda lines: [line.replace("1.0", '"1.0"') for line in lines],
    "events of another kind": lambda lines: ['{"event": ["end"], "state": {}}\n', *lines],
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_damaged_records_are_no_traceback(
    damaged: Callable[..., Path], capsys: pytest.CaptureFixture[str], damage: str, flags: list[str]
) -> None:
    """Records of a run that died, or that somebody edited, still end in a documented status."""
    folder = damaged(DAMAGES[damage])
    assert main(["diagnose", str(folder), "--reference", str(folder), *flags]) in {0, 1, 3}
    out = capsys.readouterr().out
    assert json.loads(out)["status"] in EXIT_CODES if flags else "status: " in out


def test_damage_is_told(damaged: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    """A person learns first that the run died and that a line cannot be read."""
    main(["diagnose", str(damaged(DAMAGES["cut off"]))])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "run: died: rank 0 died: its records end early"
    assert lines[1] == "damaged: 1 line(s) of its records cannot be read"
