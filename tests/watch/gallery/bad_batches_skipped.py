# expect: healthy
# mypy: ignore-errors
# Some batches hold NaN; the loop throws them away before the backward pass.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.05)
thrown = 0
for step in range(80):
    x = torch.randn(32, 8)
    if step % 9 == 0:
        x[3, 2] = float("nan")
    loss = (model(x).squeeze(1) - x[:, 0]).square().mean()
    if not torch.isfinite(loss):
        thrown += 1
        continue
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item(), thrown)
