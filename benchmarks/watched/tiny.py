"""A perceptron whose step takes below a millisecond: the hardest case for an observer."""

import time

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
inputs, targets = torch.randn(1024, 64), torch.randint(0, 10, (1024,))
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
start = time.perf_counter()
for step in range(2000):
    rows = torch.arange(step * 64, step * 64 + 64) % 1024
    loss = nn.functional.cross_entropy(model(inputs[rows]), targets[rows])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
print(time.perf_counter() - start)
