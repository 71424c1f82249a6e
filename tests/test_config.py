"""One run is described by its spec, from the command line, a YAML file and the defaults, and back into words."""

from __future__ import annotations

import argparse
import random
import shlex
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import pytest

from harness.config import (
    UNSEEN,
    RunOptions,
    RunSpec,
    add_run_flags,
    argv,
    changed,
    command,
    differences,
    digest,
    given_flags,
    public_fields,
    spec_from_args,
)
from harness.errors import UsageError

ALTERED: dict[str, Any] = {
    "workload": "mine.py:make",
    "size": "tiny",
    "precision": "bf16",
    "device": "cpu",
    "optimizer": "sgd",
    "schedule": "constant",
    "observe": "full",
    "resume": "a/step 5.pt",
    "fault": "scaler_state_lost:2",
    "augment": True,
    "restart_at": 0,
}
"""A value other than the default for the fields that are no free numbers."""


def parsed(*words: str) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser()
    add_run_flags(parser)
    return parser.parse_args(words)


def spec_of(*words: str) -> RunSpec:
    """Return the spec that a command line means."""
    return spec_from_args(parsed(*words))[0]


def refusal(*words: str) -> str:
    """Return the sentence with which a command line is refused."""
    with pytest.raises(UsageError) as caught:
        spec_of(*words)
    return str(caught.value)


@pytest.fixture
def yaml_file(tmp_path: Path) -> Path:
    """Return the path of a file to be written."""
    return tmp_path / "run.yaml"


def test_defaults_alone_are_a_run() -> None:
    """No word at all is a complete command line."""
    assert spec_from_args(parsed()) == (RunSpec(), RunOptions())


def test_command_line_beats_yaml_beats_default(yaml_file: Path) -> None:
    """Each of three fields comes from another place."""
    yaml_file.write_text("max_steps: 7\nlr: 0.1\nlog_interval: 3\n")
    args = parsed("--config", str(yaml_file), "--max-steps", "9")
    spec, options = spec_from_args(args)
    assert (spec.max_steps, spec.lr, spec.batch_size, options.log_interval) == (9, 0.1, 64, 3)
    assert given_flags(args) == {"max_steps", "lr", "log_interval"}


def test_command_line_gives_back_a_default_that_yaml_changed(yaml_file: Path) -> None:
    """A flag counts because it is given, not because it differs from the default."""
    yaml_file.write_text("augment: true\nmax_steps: 7\n")
    spec = spec_of("--config", str(yaml_file), "--augment", "false", "--max-steps", "200")
    assert (spec.augment, spec.max_steps) == (False, 200)


def test_empty_yaml_changes_nothing(yaml_file: Path) -> None:
    """A file of comments is a file of defaults."""
    yaml_file.write_text("# nothing yet\n")
    assert spec_of("--config", str(yaml_file)) == RunSpec()


@pytest.mark.parametrize("words", [("--augment",), ("--augment", "true"), ("--augment", "1")])
def test_flag_of_a_truth_needs_no_value(words: tuple[str, ...]) -> None:
    """A switch alone switches on."""
    assert spec_of(*words).augment


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--lr", "nan"), "--lr: got 'nan', expected float > 0.0"),
        (("--lr", "inf"), "--lr: got 'inf', expected float < 1e+30"),
        (("--lr", "0"), "--lr: got '0', expected float > 0.0"),
        (("--lr", "fast"), "--lr: got 'fast', expected float"),
        (("--lr", ""), "--lr: got '', expected float"),
        (("--clip-norm", "-1"), "--clip-norm: got '-1', expected float >= 0.0"),
        (("--time-limit-s", "nan"), "--time-limit-s: got 'nan', expected float >= 0.0"),
        (("--max-steps", "0"), "--max-steps: got '0', expected int >= 1"),
        (("--max-steps", "1.5"), "--max-steps: got '1.5', expected int"),
        (("--max-steps", "9" * 30), f"--max-steps: got '{'9' * 30}', expected int <= 1000000000000"),
        (("--seed", "-1"), "--seed: got '-1', expected int >= 0"),
        (("--seed", str(2**32)), "--seed: got '4294967296', expected int <= 4294967295"),
        (("--devices", "null"), "--devices: got 'null', expected int"),
        (("--augment", "maybe"), "--augment: got 'maybe', expected bool"),
        (("--precision", "fp8"), "--precision: got 'fp8', accepted are fp32, tf32, bf16, fp16"),
        (("--device", "tpu"), "--device: got 'tpu', accepted are auto, cuda, cpu, emulated"),
        (("--log-interval", "0"), "--log-interval: got '0', expected int >= 1"),
        (("--restart-at", "200"), "restart_at=200 must be below max_steps=200"),
        (("--restart-at", "5", "--resume", "x"), "restart_at and resume cannot be used together"),
    ],
)
def test_wrong_flag_is_refused_with_what_is_accepted(words: tuple[str, ...], said: str) -> None:
    """The sentence says the flag, what was given and what is accepted."""
    assert refusal(*words).startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lr: -1", "lr: got -1, expected float > 0.0"),
        ("lr: .nan", "lr: got nan, expected float > 0.0"),
        ("lr: 1e400", "lr: got inf, expected float < 1e+30"),
        ("lr: fast", "lr: got 'fast', expected float"),
        ("seed: null", "seed: got null, expected int"),
        ("seed: 010", "seed: got '010', expected int"),
        ("max_steps: true", "max_steps: got true, expected int"),
        ("max_steps: '7'", "max_steps: got '7', expected int"),
        ("max_steps: 5.5", "max_steps: got 5.5, expected int"),
        ("max_steps: [1]", "max_steps: got [1], expected int"),
        ("augment: on", "augment: got 'on', expected bool"),
        ("augment: 1", "augment: got 1, expected bool"),
        ("resume: 5", "resume: got 5, expected str"),
        ("precision: no", "precision: got 'no', accepted are fp32, tf32, bf16, fp16"),
        ("log_interval: 0", "log_interval: got 0, expected int >= 1"),
        ("resume: {a: " + "b" * 200 + "}", "resume: got {'a': 'bbb"),
        ("steps: 5", "unknown field 'steps' (did you mean 'max_steps'?); known are: augment, batch_size,"),
        ("max-steps: 5", "unknown field 'max-steps'"),
        ("config: other.yaml", "unknown field 'config'"),
        ("- lr", "expected fields of the run as 'name: value', got list"),
        ("5", "expected fields of the run as 'name: value', got int"),
    ],
)
def test_wrong_yaml_is_refused_with_its_file(yaml_file: Path, text: str, said: str) -> None:
    """The sentence says the file, the field, what was given and what is accepted, and stays short."""
    yaml_file.write_text(text)
    message = refusal("--config", str(yaml_file))
    assert message.startswith(f"{yaml_file}: {said}")
    assert len(message) < 800


def test_off_is_a_word_in_yaml(yaml_file: Path) -> None:
    """YAML 1.1 would read it as false, and 1e-2 as text."""
    yaml_file.write_text("observe: off\nlr: 1e-2\n")
    spec = spec_of("--config", str(yaml_file))
    assert (spec.observe, spec.lr) == ("off", 0.01)


def test_yaml_that_is_absent_is_named() -> None:
    """A typing error in the path is no empty file."""
    assert refusal("--config", "absent.yaml") == "absent.yaml: cannot be read: No such file or directory"


@pytest.mark.parametrize("kind", [RunSpec, RunOptions])
def test_every_field_has_a_flag_with_a_description(
    kind: type[msgspec.Struct], capsys: pytest.CaptureFixture[str]
) -> None:
    """Help shows each field, what it is for and its default."""
    with pytest.raises(SystemExit):
        parsed("--help")
    shown = " ".join(capsys.readouterr().out.split())
    for name, hint in get_type_hints(kind, include_extras=True).items():
        assert f"--{name.replace('_', '-')}" in shown
        assert get_args(hint)[-1].description in shown


@pytest.mark.parametrize("name", RunSpec.__struct_fields__)
def test_words_of_a_spec_mean_the_spec_for_each_field(name: str) -> None:
    """Whichever field is not at its default, the words bring it back."""
    default = getattr(RunSpec(), name)
    spec = msgspec.structs.replace(
        RunSpec(), **{name: ALTERED.get(name, default * 3 + 1 if name not in ALTERED else 0)}
    )
    assert spec_of(*argv(spec)[2:]) == spec


@pytest.mark.parametrize("seed", range(60))
def test_words_of_any_spec_mean_the_spec(seed: int) -> None:
    """Random values in all fields at once, also odd texts and floats without a short decimal form."""
    spec, options = random_spec(random.Random(seed))
    assert spec_from_args(parsed(*argv(spec, options)[2:])) == (spec, options)


@pytest.mark.parametrize("seed", range(5))
def test_command_survives_a_shell(seed: int) -> None:
    """What is shown can be pasted: blanks and quotes are protected."""
    spec, _ = random_spec(random.Random(seed))
    words = shlex.split(command(spec))
    assert words[:2] == ["python", "train.py"]
    assert spec_of(*words[2:]) == spec


def test_words_name_what_a_reader_asks_first() -> None:
    """Precision, devices and seed are always shown, other defaults are not."""
    assert command(RunSpec()) == "python train.py --precision fp32 --devices 1 --seed 42"


def random_spec(source: random.Random) -> tuple[RunSpec, RunOptions]:
    """Return a random valid spec and random options."""
    values = {name: random_value(source, hint) for name, hint in get_type_hints(RunSpec, include_extras=True).items()}
    if values["resume"]:
        values["restart_at"] = 0
    values["max_steps"] += values["restart_at"]
    hints = get_type_hints(RunOptions, include_extras=True)
    return RunSpec(**values), RunOptions(**{name: random_value(source, hint) for name, hint in hints.items()})


def random_value(source: random.Random, hint: Any) -> Any:
    """Return a random value of a field."""
    inner = get_args(hint)[0]
    if get_origin(inner) is Literal:
        return source.choice(get_args(inner))
    base = get_args(inner)[0] if get_args(inner) else inner
    choices = {
        bool: source.random() < 0.5,
        int: source.randint(1, 10 ** source.randint(1, 9)),
        float: source.random() * 10.0 ** source.randint(-20, 20) or 1.0,
        str: source.choice(["", "a b", "it's", '"', "-x", "--lr", "a=b", "null", "true", "$HOME", "\u00e9", "5"]),
    }
    return choices[base]


def test_equal_specs_have_equal_digests_and_other_specs_others() -> None:
    """The digest stands for the run."""
    assert digest(RunSpec(lr=0.1)) == digest(changed(RunSpec(), {"lr": "0.1"}))
    others = {
        digest(msgspec.structs.replace(RunSpec(), seed=seed, augment=flag))
        for seed in range(9)
        for flag in (True, False)
    }
    assert len(others) == 18


def test_differences_name_the_parts() -> None:
    """Each part with its value in one and in the other."""
    assert differences(RunSpec(), RunSpec(lr=0.1, seed=1)) == {"lr": (0.001, 0.1), "seed": (42, 1)}
    assert differences(RunSpec(), RunSpec()) == {}


def test_fault_is_in_none_of_the_public_fields() -> None:
    """Who investigates reads the run's files; everything else is there."""
    public = public_fields(RunSpec(fault="scaler_state_lost"))
    assert set(RunSpec.__struct_fields__) - set(public) == set(UNSEEN)
    assert "scaler_state_lost" not in str(public)


def test_changes_are_checked_and_converted() -> None:
    """Text from ``--vary`` becomes the field's type."""
    assert changed(RunSpec(), {"lr": "1e-2", "augment": "true"}) == RunSpec(lr=0.01, augment=True)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"speed": 1}, "--vary: unknown part 'speed'; known are: workload, size,"),
        ({"lr": "quick"}, "--vary: lr: got 'quick', expected float"),
        ({"size": "huge"}, "--vary: size: got 'huge', accepted are tiny, small, large"),
        ({"restart_at": 500}, "restart_at=500 must be below max_steps=200"),
    ],
)
def test_wrong_change_is_refused(changes: dict[str, Any], said: str) -> None:
    """The sentence says where the change came from."""
    with pytest.raises(UsageError) as caught:
        changed(RunSpec(), changes, "--vary")
    assert str(caught.value).startswith(said)


def test_spec_cannot_be_changed_in_place() -> None:
    """A run's description is settled when the run begins."""
    with pytest.raises(AttributeError):
        RunSpec().lr = 0.1  # type: ignore[misc]
