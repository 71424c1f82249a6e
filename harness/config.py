"""What exactly is one training run? The run spec, and the command line that is derived from it.

Every field of ``RunSpec`` is one command-line flag, one YAML key and one *part* of a comparison.
Precedence: command line > YAML > default. Equal spec means equal run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from harness.errors import UsageError
from harness.registry import did_you_mean
from harness.strict_yaml import read_yaml, typed

Precision = Literal["fp32", "tf32", "bf16", "fp16"]
DeviceKind = Literal["auto", "cuda", "cpu", "emulated"]

MAX_COUNT = 10**12
"""No count of a run comes near it, and torch's 64 bits hold any product of two."""

Count = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
CountOrOff = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
NonNegative = Annotated[float, Meta(ge=0, lt=1e30)]
Positive = Annotated[float, Meta(gt=0, lt=1e30)]


class RunSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The complete, immutable description of one training run."""

    workload: Annotated[str, Meta(description="a name, or path.py:FACTORY for your own model and data")] = "digits_mlp"
    size: Annotated[
        Literal["tiny", "small", "large"], Meta(description="size of a built-in workload; large fills a GPU")
    ] = "small"
    precision: Annotated[Precision, Meta(description="dtype of the matrix products")] = "fp32"
    device: Annotated[DeviceKind, Meta(description="where to compute; auto takes a GPU if there is one")] = "auto"
    devices: Annotated[Count, Meta(description="number of ranks, one device each")] = 1
    seed: Annotated[int, Meta(ge=0, lt=2**32, description="seed of weights, data order and augmentation")] = 42
    max_steps: Annotated[Count, Meta(description="optimizer steps to attempt")] = 200
    batch_size: Annotated[Count, Meta(description="samples per device in one forward pass")] = 64
    grad_accum: Annotated[Count, Meta(description="forward passes per optimizer step")] = 1
    optimizer: Annotated[Literal["adamw", "sgd"], Meta(description="sgd has momentum 0.9")] = "adamw"
    lr: Annotated[Positive, Meta(description="peak learning rate")] = 1e-3
    weight_decay: Annotated[NonNegative, Meta(description="decoupled (adamw) or L2 (sgd)")] = 0.0
    schedule: Annotated[
        Literal["constant", "cosine"], Meta(description="learning rate over the steps that were taken")
    ] = "cosine"
    warmup_steps: Annotated[CountOrOff, Meta(description="linear warm-up, in steps that were taken")] = 0
    clip_norm: Annotated[NonNegative, Meta(description="largest gradient norm; 0 does not clip")] = 1.0
    init_scale: Annotated[Positive, Meta(description="first loss scale of fp16")] = 65536.0
    growth_interval: Annotated[Count, Meta(description="clean steps before the loss scale doubles")] = 2000
    loss_weight: Annotated[Positive, Meta(description="factor on the training loss, as for one term of several")] = 1.0
    augment: Annotated[bool, Meta(description="use the workload's augmentation")] = False
    num_workers: Annotated[CountOrOff, Meta(description="data loader processes per rank")] = 0
    val_interval: Annotated[CountOrOff, Meta(description="steps between validations; 0 validates at the end only")] = (
        100
    )
    checkpoint_interval: Annotated[CountOrOff, Meta(description="steps between checkpoints; 0 writes none")] = 0
    restart_at: Annotated[CountOrOff, Meta(description="save, drop everything and resume at this step; 0 does not")] = 0
    resume: Annotated[str, Meta(description="checkpoint file to continue from")] = ""
    observe: Annotated[
        Literal["off", "default", "full"],
        Meta(
            description="full also repeats 16-bit reductions in float64, samples every 5th step instead of every 200th "
            "and evaluates the end in fp32 once more, which makes a run slower; off observes nothing"
        ),
    ] = "default"
    memory_limit_mb: Annotated[CountOrOff, Meta(description="memory limit per rank in MiB; 0 sets none")] = 0
    fault: Annotated[
        str, Meta(description="inject one fault, NAME or NAME:SEVERITY; its name is in none of the run's files")
    ] = ""


UNSEEN = ("fault",)
"""Parts that a run's own files never show: who investigates an incident reads those files."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a run is shown and bounded; two runs that differ only here have the same numbers."""

    log_interval: Annotated[Count, Meta(description="steps between printed lines")] = 20
    time_limit_s: Annotated[NonNegative, Meta(description="stop after this many seconds; 0 never")] = 0.0
    out: Annotated[str, Meta(description="folder for the records; default runs/<time>-<workload>-<precision>")] = ""


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    """Add one flag per field of RunSpec and RunOptions, and ``--config``."""
    for kind, title in ((RunSpec, "the run"), (RunOptions, "how it is shown")):
        group = parser.add_argument_group(title)
        for name, hint in get_type_hints(kind, include_extras=True).items():
            group.add_argument(f"--{name.replace('_', '-')}", default=None, **_flag(kind, name, hint))
    parser.add_argument("--config", metavar="FILE.yaml", help="YAML file with any of the fields above")


def spec_from_args(args: argparse.Namespace) -> tuple[RunSpec, RunOptions]:
    """Merge command line > YAML > defaults; a wrong value is a UsageError that names its origin."""
    yaml_values = _yaml_values(args.config) if args.config else {}
    spec = _merged(RunSpec, args, yaml_values, args.config)
    options = _merged(RunOptions, args, yaml_values, args.config)
    check_spec(spec)
    return spec, options


def with_absolute_paths(spec: RunSpec) -> RunSpec:
    """Return the spec with the user's files by their absolute paths: a recorded command is run from another folder."""
    path, colon, factory = spec.workload.rpartition(":")
    workload = f"{Path(path).expanduser().resolve()}:{factory}" if colon and path.endswith(".py") else spec.workload
    resume = str(Path(spec.resume).expanduser().resolve()) if spec.resume else ""
    return msgspec.structs.replace(spec, workload=workload, resume=resume)


def given_flags(args: argparse.Namespace) -> set[str]:
    """Return the fields that the command line or the YAML file sets explicitly."""
    given = {name for name in RunSpec.__struct_fields__ if getattr(args, name, None) is not None}
    return given | set(_yaml_values(args.config) if args.config else {})


def changed(spec: RunSpec, changes: dict[str, Any], where: str = "changes") -> RunSpec:
    """Return ``spec`` with some fields replaced and checked again; text values are converted."""
    for name, value in _known(RunSpec, changes, where).items():
        _check(RunSpec, name, value, f"{where}: {name}", strict=False)
    result = typed(msgspec.to_builtins(spec) | changes, RunSpec, where, strict=False)
    check_spec(result)
    return result


def check_spec(spec: RunSpec) -> None:
    """Refuse combinations that no single field can refuse."""
    if spec.restart_at >= spec.max_steps:
        raise UsageError(f"restart_at={spec.restart_at} must be below max_steps={spec.max_steps}")
    if spec.restart_at and spec.resume:
        raise UsageError("restart_at and resume cannot be used together: one run continues from one place")


def differences(one: RunSpec, other: RunSpec) -> dict[str, tuple[Any, Any]]:
    """Return the parts in which two specs differ: name -> (value in one, value in other)."""
    pairs = ((name, getattr(one, name), getattr(other, name)) for name in RunSpec.__struct_fields__)
    return {name: (a, b) for name, a, b in pairs if a != b}


def public_fields(spec: RunSpec) -> dict[str, Any]:
    """Return the spec as plain data without the parts that a run's own files must not show."""
    return {k: v for k, v in msgspec.to_builtins(spec).items() if k not in UNSEEN}


def digest(spec: RunSpec) -> str:
    """Return 12 hex digits that are equal for equal specs."""
    text = json.dumps(msgspec.to_builtins(spec), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def argv(spec: RunSpec, options: RunOptions | None = None) -> list[str]:
    """Return the shell words that run exactly this spec: only what differs from the defaults."""
    words = ["python", "train.py"]
    for value in (spec, options or RunOptions()):
        default = type(value)()
        for name in value.__struct_fields__:
            mine = getattr(value, name)
            if mine != getattr(default, name) or name in {"precision", "devices", "seed"}:
                words += _flag_words(f"--{name.replace('_', '-')}", _text(mine))
    return words


def _flag_words(flag: str, text: str) -> list[str]:
    """Return a flag and its value; one word when the value looks like a flag itself."""
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]


def command(spec: RunSpec, options: RunOptions | None = None) -> str:
    """Return ``argv`` as one line that can be pasted into a shell."""
    return shlex.join(argv(spec, options))


def _flag(kind: type[msgspec.Struct], name: str, hint: Any) -> dict[str, Any]:
    inner, meta = get_args(hint)[0], get_args(hint)[-1]
    default = getattr(kind(), name)
    text = f"{meta.description} (default: {_text(default) or 'none'})".replace("%", "%%")
    if get_origin(inner) is Literal:
        return {"help": text, "metavar": "{" + ",".join(get_args(inner)) + "}"}
    if inner is bool:
        return {"help": text, "metavar": "{true,false}", "nargs": "?", "const": "true"}
    return {"help": text, "metavar": _metavar(inner)}


def _metavar(hint: Any) -> str:
    base = get_args(hint)[0] if get_args(hint) else hint
    return {int: "N", float: "X"}.get(base, "TEXT")


def _yaml_values(path: str) -> dict[str, Any]:
    data = read_yaml(Path(path))
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise UsageError(f"{path}: expected fields of the run as 'name: value', got {type(data).__name__}")
    known = {*RunSpec.__struct_fields__, *RunOptions.__struct_fields__}
    for key in data:
        if key not in known:
            raise UsageError(
                f"{path}: unknown field {key!r}{did_you_mean(key, known)}; known are: {', '.join(sorted(known))}"
            )
    return data


def _merged(kind: type[Any], args: argparse.Namespace, yaml_values: dict[str, Any], path: str | None) -> Any:
    names = kind.__struct_fields__
    from_yaml = {name: value for name, value in yaml_values.items() if name in names}
    given = {name: getattr(args, name) for name in names if getattr(args, name, None) is not None}
    for name, value in from_yaml.items():
        _check(kind, name, value, f"{path}: {name}", strict=True)
    for name, value in given.items():
        _check(kind, name, value, f"--{name.replace('_', '-')}", strict=False)
    return typed(from_yaml | given, kind, "command line", strict=False)


def _check(kind: type[Any], name: str, value: Any, where: str, *, strict: bool) -> None:
    """Refuse one value of one field; the message says what was given and what is accepted."""
    try:
        msgspec.convert({name: value}, kind, strict=strict)
    except msgspec.ValidationError as error:
        reason = str(error).partition(" - at")[0].partition(", got")[0].replace("`", "")
        raise UsageError(f"{where}: got {_shown(value)}, {_accepted(kind, name, reason)}") from error


def _shown(value: Any) -> str:
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _accepted(kind: type[Any], name: str, reason: str) -> str:
    inner = get_args(get_type_hints(kind, include_extras=True)[name])[0]
    if get_origin(inner) is Literal:
        return "accepted are " + ", ".join(get_args(inner))
    return reason[0].lower() + reason[1:]


def _known(kind: type[Any], values: dict[str, Any], where: str) -> dict[str, Any]:
    for key in values:
        if key not in kind.__struct_fields__:
            raise UsageError(f"{where}: unknown part {key!r}; known are: {', '.join(kind.__struct_fields__)}")
    return values


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
