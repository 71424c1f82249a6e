"""``make gpu-check``: everything that only a GPU can show, unattended, in one go, into one folder.

Uses the python that runs it, with the torch that is installed there, and no network. Each stage has
a share of the total time; a stage that fails or is late is recorded and the next one starts.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.cli.flags import Flags, one_of
from harness.cli.terminal import complain, say, table
from harness.errors import HarnessError, UsageError
from harness.observe.clock import utc_now
from harness.observe.environment import PROJECT
from harness.processes import finish

TOTAL_S = 450.0
"""Below the eight minutes that the target promises, with half a minute to spare for the start of the last stage."""

NEEDED = (
    "torch",
    "numpy",
    "pytest",
    "xdist",
    "pytest_html",
    "pynvml",
    "sklearn",
    "msgspec",
    "yaml",
    "jinja2",
    "matplotlib",
)


@dataclass(frozen=True)
class Stage:
    """One command and the most that it may take."""

    name: str
    command: list[str]
    limit_s: float


@dataclass(frozen=True)
class Ended:
    """How one stage ended."""

    name: str
    command: list[str]
    state: str
    seconds: float
    log: str


def stages(out: Path, device: str) -> list[Stage]:
    """Return what is run: health, scenario, precision comparison, a model that fills the card."""
    python, exam = sys.executable, [sys.executable, "-m", "harness.cli.main"]
    marker = ["-m", "gpu"] if device == "cuda" else ["-k", "uncontrolled_comparison"]
    large = ["--size", "large", "--max-steps", "60", "--batch-size", "8", "--lr", "3e-4", "--time-limit-s", "60"]
    heavy = large if device == "cuda" else ["--size", "tiny", "--max-steps", "20", "--batch-size", "8"]
    values = "fp32,tf32,bf16,fp16" if device == "cuda" else "fp32,bf16"
    lm = ["--device", device, "--workload", "byte_lm", *heavy]
    return [
        Stage("doctor", [*exam, "doctor", "--device", device, "--out", str(out)], 60),
        Stage(
            "scenarios",
            [python, "-m", "pytest", "scenarios/", *marker, "--device", device, "--exam-out", str(out / "scenarios")],
            200,
        ),
        Stage("verify", [*exam, "verify", str(out / "scenarios")], 30),
        Stage("train large bf16", [python, "train.py", "--precision", "bf16", *lm, "--out", str(out / "train")], 80),
        Stage(
            "compare precisions",
            [*exam, "compare", "--vary", f"precision={values}", "--repeats", "2", *lm, "--out", str(out / "compare")],
            160,
        ),
    ]


def run(words: list[str]) -> int:
    """Run the stages; return 0 when all ended well, 1 otherwise, 2 when it cannot start."""
    parser = Flags("gpu-check", "Run everything that needs a GPU, unattended.")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for reports, records and logs")
    parser.add_argument(
        "--device", type=one_of("cuda", "cpu"), default="cuda", metavar="{cuda,cpu}", help="cpu is a short rehearsal"
    )
    args = parser.read(words)
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        raise UsageError(f"{sys.executable} lacks {', '.join(absent)}; install them for this python first")
    out = args.out.resolve()
    if (out / "summary.json").exists():
        raise UsageError(f"{out} already holds a check; name another folder with --out")
    out.mkdir(parents=True, exist_ok=True)
    ended = _all(stages(out, args.device), out)
    say("\n".join(table([[e.state, e.name, f"{e.seconds:.0f} s", e.log] for e in ended], ["", "stage", "time", "log"])))
    say(f"summary: {out / 'summary.json'}")
    return 0 if all(stage.state == "PASSED" for stage in ended) else 1


def _all(planned: list[Stage], out: Path) -> list[Ended]:
    deadline, started, ended = time.monotonic() + TOTAL_S, utc_now(), []
    for number, stage in enumerate(planned):
        left = deadline - time.monotonic()
        log = out / f"{number}-{stage.name.replace(' ', '-')}.log"
        ended.append(_one(stage, min(stage.limit_s, left), log))
        summary = {"started": started, "stages": [asdict(stage) for stage in ended], "planned": len(planned)}
        (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    return ended


def _one(stage: Stage, limit_s: float, log: Path) -> Ended:
    start = time.monotonic()
    if limit_s <= 0:
        return Ended(stage.name, stage.command, "SKIPPED: no time left", 0.0, log.name)
    with log.open("wb") as file:
        ended = finish(stage.command, limit_s, cwd=PROJECT, output=file)
    state = "PASSED" if ended.code == 0 else f"FAILED: exit {ended.code}"
    if ended.timed_out:
        state = f"TIMEOUT after {limit_s:.0f} s"
    return Ended(stage.name, stage.command, state, time.monotonic() - start, log.name)


def main() -> int:
    """Run from the shell."""
    try:
        return run(sys.argv[1:])
    except HarnessError as error:
        complain(f"gpu-check: error: {error}")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
