"""``gpu-exam compare``: one part varies, everything else is equal; what is gained, and may it be deployed?"""

from __future__ import annotations

import argparse
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from harness.cli.flags import Flags, whole
from harness.cli.given import known_part, readable_run
from harness.cli.terminal import say, table
from harness.config import RunOptions, add_run_flags, argv, changed, spec_from_args, with_absolute_paths
from harness.devices.kinds import resolved
from harness.errors import UsageError
from harness.experiment.compare import Arm, Contrast, Spread, compare, compare_recorded, contrast, vary
from harness.experiment.decide import Decision, decide
from harness.experiment.store import RunStore
from harness.observe.chain import Tolerance
from harness.observe.environment import fingerprint
from harness.observe.evidence import Entry, EvidenceLog
from harness.observe.recorder import standard

KEPT = ("val_metric", "loss")
"""Numbers of a run that another engineer must get again."""

BETTER = {"max": " (higher is better)", "min": " (lower is better)"}
"""Goal of a metric -> what it says to a reader of the table."""

NOT_FINITE = "not finite"


def run(words: list[str]) -> int:
    """Compare and print; return 0 when the comparison was carried out."""
    args = parser().read(words)
    part, values = vary(args.vary) if "=" in args.vary else (known_part(args.vary, "--vary"), [])
    if args.runs:
        if len(args.runs) != 2:
            raise UsageError(f"compare takes two run folders, got {len(args.runs)}")
        if values:
            raise UsageError(f"--vary {args.vary!r}: two run folders have their values; name the part alone")
        arms = compare_recorded(readable_run(args.runs[0]), readable_run(args.runs[1]), part)
        store = None
    else:
        store, arms = _measured(args, part, values)
    contrasts = [contrast(arm, arms[0]) for arm in arms[1:]]
    decisions = [decide(arm, found, args.tolerance) for arm, found in zip(arms[1:], contrasts, strict=True)]
    result = _result(part, arms, contrasts, decisions, args.tolerance)
    if store is not None:
        _keep(store, arms, decisions, result)
    out = store.folder.parent if store else None
    say(_json(result) if args.json else _text(part, arms, contrasts, decisions, out))
    return 0


def parser() -> Flags:
    """Return the command line of ``compare``."""
    parser = Flags(
        prog="gpu-exam compare",
        usage="%(prog)s [RUN RUN] [--vary PART=VALUE,VALUE] [--repeats N] [--tolerance X] [--json] [FLAGS of train.py]",
        description="Vary one part of a run, everything else equal, or compare two run folders.",
    )
    parser.add_argument("runs", nargs="*", metavar="RUN", help="two run folders that exist")
    parser.add_argument(
        "--vary",
        default="precision",
        metavar="PART=VALUE,VALUE",
        help="the part that differs and its values, the baseline first; with run folders the part alone",
    )
    parser.add_argument(
        "--repeats", type=whole(1, 100), default=3, metavar="N", help="timed runs per value (default: 3)"
    )
    parser.add_argument(
        "--tolerance",
        type=_share,
        default=0.01,
        metavar="X",
        help="relative loss of the metric that is tolerated (0.01)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    add_run_flags(parser)
    return parser


def _measured(args: argparse.Namespace, part: str, values: list[str]) -> tuple[RunStore, list[Arm]]:
    if not values:
        raise UsageError(f"--vary {args.vary!r}: expected part=value,value,... with at least two values")
    if getattr(args, part) is not None:
        raise UsageError(f"--{part.replace('_', '-')} is the part that --vary varies; give it once")
    spec, options = spec_from_args(args)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    out = Path(options.out or f"runs/{stamp}-compare-{part}").resolve()
    if (out / "evidence.jsonl").exists():
        raise UsageError(f"--out {out}: it already holds a comparison; name another folder")
    base = resolved(with_absolute_paths(spec))
    for value in values:
        resolved(changed(base, {part: value}, f"--vary {part}={value}"))
    store = RunStore(out / "runs", RunOptions(log_interval=options.log_interval, time_limit_s=options.time_limit_s))
    return store, compare(base, part, values, args.repeats, store)


def _keep(store: RunStore, arms: list[Arm], decisions: list[Decision], result: dict[str, Any]) -> None:
    """Write the evidence: one record for each timed run, and the result beside it."""
    out = store.folder.parent
    (out / "comparison.json").write_text(_json(result), encoding="utf-8")
    with EvidenceLog.open(out) as log:
        environment = log.environment(fingerprint())
        for number, arm in enumerate(arms):
            verdict = decisions[number - 1].verdict if number else "baseline"
            for spec, run in zip(arm.specs, arm.runs, strict=True):
                values = {name: run.value(name) for name in KEPT}
                entry = Entry(
                    command=argv(spec, store.options),
                    environment=environment,
                    expected="the same numbers from the same command",
                    observed={"arm": arm.label, "state": run.state, "decision": verdict},
                    verdict="RECORDED",
                    subject=f"arm {arm.label}, seed {spec.seed}",
                    tolerance=Tolerance(relative=1e-3 if spec.device == "cpu" else 0.05),
                    values={name: value for name, value in values.items() if value is not None},
                    artifacts=[run.folder / "rank0.jsonl"],
                )
                log.append(entry)
        total = sum(len(arm.runs) for arm in arms)
        log.close(total, total)


def _result(
    part: str, arms: list[Arm], contrasts: list[Contrast], decisions: list[Decision], tolerance: float
) -> dict[str, Any]:
    rows = [
        {
            "value": arm.label,
            "state": arm.state,
            "speed_ratio": msgspec.to_builtins(found.speed),
            "metric_loss": msgspec.to_builtins(found.quality),
            "memory_ratio": msgspec.to_builtins(found.memory),
            "decision": decision.verdict,
            "reason": decision.reason,
            "diagnosis": msgspec.to_builtins(arm.diagnosis),
        }
        for arm, found, decision in zip(arms[1:], contrasts, decisions, strict=True)
    ]
    baseline = {"value": arms[0].label, "state": arms[0].state, "diagnosis": msgspec.to_builtins(arms[0].diagnosis)}
    start = arms[0].runs[0].start
    measured = {"metric": start.get("metric"), "goal": start.get("goal"), "repeats": len(arms[0].runs)}
    return {"varied": part, "tolerance": tolerance, **measured, "baseline": baseline, "arms": rows}


def _text(part: str, arms: list[Arm], contrasts: list[Contrast], decisions: list[Decision], out: Path | None) -> str:
    first, repeats = arms[0].runs[0], len(arms[0].runs)
    metric = f"{first.start.get('metric') or 'metric'}{BETTER.get(str(first.start.get('goal')), '')}"
    rows = [[arms[0].label, arms[0].state, "1.00", "1.00", _metric(arms[0]), "-", "baseline"]]
    for arm, found, decision in zip(arms[1:], contrasts, decisions, strict=True):
        speed, memory = (_shown(spread, repeats, ".2f") for spread in (found.speed, found.memory))
        loss = _shown(found.quality, repeats, "+.2%")
        rows.append([arm.label, arm.state, speed, memory, _metric(arm), loss, decision.verdict])
    header = [part, "state", "speed", "memory", metric, "loss of it (+ is worse)", "decision"]
    kind = first.start.get("device_kind", "unknown")
    lines = [
        f"on {kind}: {first.start.get('device_name', '')}, {_repeats(repeats)}",
        *table(rows, header),
        "",
    ]
    lines += [
        f"{arm.label}: {decision.verdict}. {decision.reason}" for arm, decision in zip(arms[1:], decisions, strict=True)
    ]
    if arms[0].state != "completed":
        lines.append(f"{arms[0].label}, the baseline, ended as {arms[0].state}: the ratios to it say nothing")
    lines += [f"{arm.label}, {finding.cause}: {finding.summary}" for arm in arms for finding in arm.diagnosis.findings]
    return "\n".join([*lines, *([f"evidence: {out}"] if out else [])])


def _metric(arm: Arm) -> str:
    value = arm.runs[0].value("val_metric")
    return "-" if value is None else _number(value, ".4g")


def _repeats(count: int) -> str:
    return "1 repeat, which has no spread" if count == 1 else f"{count} repeats, shown as median (lowest..highest)"


def _shown(spread: Spread, repeats: int, form: str) -> str:
    if math.isnan(spread.middle):
        return "-"
    middle, low, high = (_number(value, form) for value in (spread.middle, spread.low, spread.high))
    return middle if repeats == 1 or low == high == NOT_FINITE else f"{middle} ({low}..{high})"


def _number(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else NOT_FINITE


def _json(result: dict[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(standard(result)), indent=2).decode()


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"got {text!r}, a number from 0 to below 1 is accepted")
    return value
