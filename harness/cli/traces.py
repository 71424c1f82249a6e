"""``gpu-exam diagnose trace.json.gz ...``: where do the traces of a profiler lose their time?"""

from __future__ import annotations

from pathlib import Path

from harness.cli.terminal import say, table
from harness.cli.words import as_json, as_words
from harness.errors import UsageError
from harness.trace.diagnosis import TraceDiagnosis, diagnose_trace
from harness.trace.ranks import diagnose_ranks
from harness.trace.read import is_trace, read_trace

MAX_NAME = 80
"""Characters of a kernel's name that are shown."""


ENDINGS = (".json", ".json.gz", ".sqlite", ".gz")
"""How traces in a folder are called."""


def traces_among(paths: list[str]) -> list[str]:
    """Return the traces that are meant, files or those in a folder; UsageError when only some of the files are."""
    if len(paths) == 1 and Path(paths[0]).is_dir():
        inside = sorted(str(path) for path in Path(paths[0]).iterdir() if path.name.endswith(ENDINGS))
        return [path for path in inside if is_trace(Path(path))]
    traces = [path for path in paths if Path(path).is_file() and is_trace(Path(path))]
    others = [path for path in paths if path not in traces]
    if traces and others:
        raise UsageError(f"{others[0]}: no trace, beside the trace {traces[0]}; the traces of one job are accepted")
    return traces


def diagnose_trace_files(paths: list[str], *, json: bool, verbose: bool = False) -> TraceDiagnosis:
    """Diagnose the traces of one job, and print what was found with where the time went."""
    traces = [read_trace(Path(path)) for path in paths]
    result = diagnose_trace(traces[0]) if len(traces) == 1 else diagnose_ranks(traces)
    words = as_words(result, verbose=verbose)
    say(as_json(result) if json else "\n".join([*words, *(_where(result) if result.shares else [])]))
    return result


def _where(result: TraceDiagnosis) -> list[str]:
    """Return the partition of the window, and the kernels that take most of it."""
    idle = result.shares["idle"]
    rows = [(name, share) for name, share in result.shares.items() if isinstance(share, float)]
    rows += [(f"idle, {name}", share) for name, share in idle.items()] if isinstance(idle, dict) else []
    told = ", ".join(f"{name.replace('_', ' ')} {share:.1%}" for name, share in rows if share >= 0.0005)
    steps = f"{result.window['steps']:.0f} step(s)" if result.window["steps"] else "the device work"
    lines = [f"window: {result.window['length_us'] / 1000:.4g} ms, {steps}; {told}"]
    top = [(f"{k['share']:.1%}", f"{k['count']} x", str(k["name"])[:MAX_NAME]) for k in result.top_kernels[:5]]
    ranks = [_rank(rank, shares) for rank, shares in result.ranks.items()]
    lines += ["ranks:", *table(ranks, ["rank", "compute", "communication", "copy", "idle"])] if ranks else []
    lines += [f"no trace of rank {', '.join(map(str, result.absent))}"] if result.absent else []
    return [*lines, *(["kernels:", *table(top)] if top else [])]


def _rank(rank: str, shares: dict[str, float | dict[str, float]]) -> list[str]:
    """Return a row of the table of ranks."""
    values = (shares.get(name, 0.0) for name in ("compute", "exposed_communication", "exposed_copy", "idle"))
    return [rank, *(f"{sum(value.values()) if isinstance(value, dict) else value:.1%}" for value in values)]
