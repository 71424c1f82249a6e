"""Is a training over several ranks diagnosed as one, whichever rank the fault is in?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from harness.diagnose.diagnosis import UNKNOWN
from harness.diagnose.finding import Diagnosis
from harness.watch.records import silent_ranks, trained
from tests.running import LIMIT_S
from tests.watch.test_command import cli

pytestmark = pytest.mark.slow

BEGIN = """
import os, torch, torch.distributed as dist
from torch import nn
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 4))
"""

LOOP = """
for step in range(30):
    x = torch.randn(32, 12)
    loss = nn.functional.cross_entropy(model(x.to(next(model.parameters()).dtype)).float(), x[:, :4].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    send()
    optimizer.step()
dist.barrier()
os._exit(0)  # gloo's own end aborts a process now and then
"""

DDP = "model = nn.parallel.DistributedDataParallel(model)\n"
OPTIMIZER = "optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)\nsend = lambda: None\n"
HALF_IN_RANK_1 = "model = model.bfloat16() if rank == 1 else model\n"
IDLE_RANK_1 = "if rank == 1:\n    dist.barrier()\n    os._exit(0)\n"
IN_FP16 = """
def send():
    for p in model.parameters():
        sent = (p.grad * 1e-4).half()
        dist.all_reduce(sent)
        p.grad = sent.float() / 2
"""

SCRIPTS = {
    "healthy": (BEGIN + DDP + OPTIMIZER + LOOP, "healthy"),
    "half in rank 1": (BEGIN + HALF_IN_RANK_1 + OPTIMIZER + LOOP, "low_precision_weights"),
    "one rank is idle": (BEGIN + IDLE_RANK_1 + OPTIMIZER + LOOP, "healthy"),
    "sent in fp16": (BEGIN + OPTIMIZER + IN_FP16 + LOOP, "low_precision_reduction"),
}


def said(diagnosis: Diagnosis) -> str:
    """Return the first cause, or the status."""
    return diagnosis.findings[0].cause if diagnosis.findings else diagnosis.status


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_is_said_of_two_ranks(name: str, tmp_path: Path) -> None:
    """Healthy is healthy, a fault in one rank is a fault; a rank that does not train is named, and is none."""
    text, expected = SCRIPTS[name]
    script, out = tmp_path / "script.py", tmp_path / "out"
    script.write_text(text, encoding="utf-8")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(script)]
    done = subprocess.run(
        [*cli("--out", str(out)), "--", *launch], capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    diagnosis = msgspec.json.decode((out / "diagnosis.json").read_bytes(), type=Diagnosis)
    assert said(diagnosis) == expected != UNKNOWN, done.stderr
    runs = trained(out)
    assert not [run.summary["observer_notes"] for run in runs if run.summary["observer_notes"]]
    assert silent_ranks(runs) == ([1] if name == "one rank is idle" else [])
    assert ("no training was seen in rank 1" in done.stderr) == (name == "one rank is idle")


SPAWNED = """
import os, torch, torch.multiprocessing as mp
def work(rank):
    import os
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517"}
BODY
if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
"""


def test_ranks_of_spawned_processes_are_known(tmp_path: Path) -> None:
    """Who sets RANK in the process itself does so after torch was imported."""
    body = "\n".join(f"    {line}" for line in (BEGIN + DDP + OPTIMIZER + LOOP).splitlines())
    script, out = tmp_path / "script.py", tmp_path / "out"
    script.write_text(SPAWNED.replace("BODY", body), encoding="utf-8")
    done = subprocess.run(
        [*cli("--out", str(out)), "--", sys.executable, str(script)], capture_output=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    runs = trained(out)
    assert [(run.ranks[0].rank, run.state, run.start["num_ranks"]) for run in runs] == [
        (0, "completed", 2),
        (1, "completed", 2),
    ]
