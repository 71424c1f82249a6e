"""``gpu-exam diagnose trace.json.gz``: where does a profiler's trace lose its time?"""

from __future__ import annotations

from pathlib import Path

from harness.cli.terminal import say, table
from harness.cli.words import as_json, as_words
from harness.errors import UsageError
from harness.trace.diagnosis import TraceDiagnosis, diagnose_trace
from harness.trace.read import is_trace, read_trace

MAX_NAME = 80
"""Characters of a kernel's name that are shown."""


def are_traces(paths: list[str]) -> bool:
    """Whether the files are traces; UsageError when a trace is given beside other files."""
    traces = [path for path in paths if is_trace(Path(path))]
    if traces and len(paths) > 1:
        raise UsageError(f"{paths[1]}: a second file beside the trace {traces[0]}; one trace is accepted")
    return bool(traces)


def diagnose_trace_file(path: str, *, json: bool, verbose: bool = False) -> TraceDiagnosis:
    """Diagnose one trace, and print what was found with where the time went."""
    result = diagnose_trace(read_trace(Path(path)))
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
    return [*lines, *(["kernels:", *table(top)] if top else [])]
