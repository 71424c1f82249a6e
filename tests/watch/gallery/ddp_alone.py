# expect: healthy
# mypy: ignore-errors
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(0)
with tempfile.TemporaryDirectory() as folder:
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    model = DDP(nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(40):
        x = torch.randn(32, 10)
        context = model.no_sync() if step % 2 == 0 else torch.enable_grad()
        with context, torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long()) / 2
            loss.backward()
        if step % 2 == 1:
            optimizer.step()
            optimizer.zero_grad()
    print(os.getpid() > 0, loss.item())
    dist.destroy_process_group()
