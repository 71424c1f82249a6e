# expect: healthy
# mypy: ignore-errors
# The learning rate is written into the groups, by the number of the iteration.
import math

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**34)
taken = 0
for step in range(80):
    position = taken
    optimizer.param_groups[0]["lr"] = 0.15 * (1 + math.cos(math.pi * position / 80))
    x = torch.randn(64, 20)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(x), x[:, :4].argmax(1))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    taken += scaler.get_scale() >= before
print(taken, loss.item())
