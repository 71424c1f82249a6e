# expect: healthy
# mypy: ignore-errors
# A scaler of one's own: skips when something is not finite, and never lowers the scale.
import torch
from torch import nn


class StaticLossScaler:
    def __init__(self, scale):
        self.scale, self.skipped = scale, 0

    def backward(self, loss):
        (loss * self.scale).backward()

    def step(self, optimizer, parameters):
        finite = all(torch.isfinite(p.grad).all() for p in parameters)
        if not finite:
            self.skipped += 1
            self.scale /= 2
            return
        for p in parameters:
            p.grad.div_(self.scale)
        optimizer.step()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
parameters = list(model.parameters())
optimizer = torch.optim.SGD(parameters, lr=0.02)
scaler = StaticLossScaler(2.0**17)
for step in range(80):
    x = torch.randn(64, 16)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x).float().squeeze(1), x[:, 0] * x[:, 1])
    optimizer.zero_grad()
    scaler.backward(loss)
    scaler.step(optimizer, parameters)
print(loss.item(), scaler.skipped)
