# expect: healthy
# mypy: ignore-errors
# Layers are left out at random per step, so some weights have a gradient in some steps only; fp16 with a scaler.
import random

import torch
from torch import nn

random.seed(0)
torch.manual_seed(0)
stem, head = nn.Linear(6, 32), nn.Linear(32, 2)
blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32), nn.ReLU()) for _ in range(5))
model = nn.ModuleList([stem, blocks, head])
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
for step in range(70):
    x = torch.randn(48, 6)
    with torch.autocast("cpu", dtype=torch.float16):
        h = stem(x)
        for block in blocks[: random.randint(0, 3)]:
            h = h + block(h)
        loss = nn.functional.cross_entropy(head(h), (x[:, 0] + x[:, 1] > 0).long())
    opt.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
print(loss.item())
