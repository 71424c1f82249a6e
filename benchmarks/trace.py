"""How much faster than HolisticTraceAnalysis is a trace diagnosed, with how much memory, and do the two agree?

    python -m venv hta && hta/bin/pip install HolisticTraceAnalysis==0.5.0
    python benchmarks/trace.py --hta hta/bin/python [--kernels 60000] [--repeats 3]

The trace is written here: kernels, collectives that compute hides in part, launches and operators, without steps, so
that both tools look at the whole of the device's time. Each tool runs as a process of its own, in turns; told are wall
time, peak memory, and the answers of both. Bounds: ten times faster, a quarter of the memory, answers within 1 %.

Measured on 2 cores of an AMD EPYC, Python 3.11, HTA 0.5.0 with pandas 3.1.1 and its JSON backend: 11.3 times faster (5
pairs; 0.52 s against 5.9 s) with 0.20 of the memory (80 against 409 MB) for 42 MB; 15.4 times faster (1 pair) with 0.08
of the memory for 211 MB. The answers were the same.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

OURS = """
import json, sys
from pathlib import Path
from harness.trace.breakdown import break_down
from harness.trace.read import read_trace
found = break_down(read_trace(Path(sys.argv[1])))
sums = {kernel.name: kernel.total_us for kernel in found.top}
print(json.dumps({"idle": sum(found.idle.values()), "overlap": found.communication_overlap, "sums": sums}))
"""

THEIRS = """
import json, os, sys
from hta.trace_analysis import TraceAnalysis
found = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir=os.path.dirname(sys.argv[1]))
whole = found.get_temporal_breakdown(visualize=False).iloc[0]
overlap = found.get_comm_comp_overlap(visualize=False).iloc[0]["comp_comm_overlap_pctg"] / 100
_, kernels = found.get_gpu_kernel_breakdown(visualize=False, num_kernels=20)
sums = dict(zip(kernels["name"], kernels["sum (us)"]))
print(json.dumps({"idle": whole["idle_time(us)"] / whole["kernel_time(us)"], "overlap": overlap, "sums": sums}))
"""


def event(category: str, name: str, start: int, length: int, **arguments: Any) -> dict[str, Any]:
    """Return one event; whole microseconds, because HTA rounds the others down."""
    device = category == "kernel"
    places = {"pid": 0 if device else 1, "tid": arguments.get("stream", 1)}
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": length, **places, "args": arguments}


def write_trace(path: Path, num_kernels: int) -> None:
    """Write a trace with so many kernels, and a collective beside every tenth."""
    with path.open("w", encoding="utf-8") as file:
        file.write('{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [')
        for number in range(num_kernels):
            at, ids = 1_000_000 + 12 * number, {"External id": number, "correlation": 3 * number + 1}
            shapes = {"Input Dims": [[128, 1024], [1024, 1024]], "Input type": ["float", "float"]}
            events = [
                event("cpu_op", "aten::mm", at, 9, **shapes, **{"External id": number, "Sequence number": number}),
                event("cuda_runtime", "cudaLaunchKernel", at + 2, 4, cbid=211, **ids),
                {"ph": "s", "id": ids["correlation"], "pid": 1, "tid": 1, "ts": at + 2, "cat": "ac2g", "name": "ac2g"},
                event("kernel", f"ampere_sgemm_{number % 12}", at + 8, 7, stream=7, device=0, grid=[16, 8, 1], **ids),
            ]
            if number % 10 == 0:
                more = ids | {"correlation": ids["correlation"] + 1}
                events += [
                    event("cuda_runtime", "cudaLaunchKernel", at + 6, 1, cbid=211, **more),
                    event("kernel", "ncclKernel_AllReduce_RING_LL_Sum_float", at + 12, 6, stream=20, device=0, **more),
                ]
            file.write(("," if number else "") + ",".join(map(json.dumps, events)))
        file.write("]}")


def measured(python: str, code: str, path: Path) -> tuple[float, float, dict[str, Any]]:
    """Return seconds, peak megabytes and the answers of one process."""
    start = time.perf_counter()
    process = subprocess.Popen([python, "-c", code, path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{python} ended with status {status}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024, json.loads(output.splitlines()[-1])


def main() -> None:
    """Print a row for each tool, and how far their answers are apart."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--hta", required=True, help="a python that has HolisticTraceAnalysis")
    parser.add_argument("--kernels", type=int, default=60_000)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        write_trace(path, args.kernels)
        print(f"{path.stat().st_size / 2**20:.0f} MB, {args.kernels} kernels")
        pairs = [(measured(sys.executable, OURS, path), measured(args.hta, THEIRS, path)) for _ in range(args.repeats)]
    for name, at in (("ours", 0), ("HTA", 1)):
        seconds, memory = (statistics.median(pair[at][number] for pair in pairs) for number in (0, 1))
        print(f"{name:5} {seconds:.2f} s, {memory:.0f} MB")
    faster = statistics.median(theirs[0] / ours[0] for ours, theirs in pairs)
    memory = statistics.median(ours[1] / theirs[1] for ours, theirs in pairs)
    print(f"{faster:.1f} times faster (bound 10), {memory:.2f} of the memory (bound 0.25)")
    ours, theirs = pairs[0][0][2], pairs[0][1][2]
    sums = max(abs(theirs["sums"][name] / total - 1) for name, total in ours["sums"].items() if name in theirs["sums"])
    for name, apart in (("idle", ours["idle"] - theirs["idle"]), ("overlap", ours["overlap"] - theirs["overlap"])):
        print(f"{name}: {ours[name]:.4f} and {theirs[name]:.4f}, {abs(apart):.4f} apart (bound 0.01)")
    print(f"kernel sums: at most {sums:.4f} apart (bound 0.01)")


if __name__ == "__main__":
    main()
