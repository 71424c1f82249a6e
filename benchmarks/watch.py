"""How much slower is a training script that is watched? Paired, interleaved, judged as a ratio.

    python benchmarks/watch.py [--repeats 9]

Each script in benchmarks/watched prints the seconds that its own loop took: alone, and under ``gpu-exam watch``.
The bound is 1.05 for the median of the paired ratios.

Measured on 2 cores of an AMD EPYC, torch 2.13.0, 5 pairs: 0.997 (0.978..1.004) for the input-bound script, 0.983
(0.948..1.029) for the transformer, 1.039 (1.006..1.048) for the perceptron whose step takes 0.8 ms.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

WATCHED = Path(__file__).parent / "watched"


def seconds(script: Path, *before: str) -> float:
    """Return what the script says that its loop took."""
    done = subprocess.run([*before, sys.executable, script], capture_output=True, text=True, check=True)
    return float(done.stdout)


def under_watch(script: Path) -> float:
    """Return the same for a watched script."""
    with tempfile.TemporaryDirectory() as folder:
        return seconds(script, sys.executable, "-m", "harness.cli.main", "watch", "--out", folder, "--")


def paired(script: Path, repeats: int) -> list[float]:
    """Return watched/alone for each pair; the order alternates from pair to pair."""
    ratios = []
    for repeat in range(repeats):
        if repeat % 2:
            watched, alone = under_watch(script), seconds(script)
        else:
            alone, watched = seconds(script), under_watch(script)
        ratios.append(watched / alone)
    return ratios


def main() -> None:
    """Print a row per script."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    for script in sorted(WATCHED.glob("*.py")):
        ratios = paired(script, repeats)
        middle = statistics.median(ratios)
        print(f"{script.stem:12} watched / alone = {middle:.3f} ({min(ratios):.3f}..{max(ratios):.3f}), bound 1.05")


if __name__ == "__main__":
    main()
