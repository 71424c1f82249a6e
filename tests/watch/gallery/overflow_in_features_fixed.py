# expect: healthy
# mypy: ignore-errors
# Raw sensor counts go into the first layer: what it gives does not fit fp16.
import torch
from torch import nn


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(32, 64)

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            return self.project(x.float())


torch.manual_seed(0)
model = nn.Sequential(Features(), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(70):
    x = torch.randn(32, 32) * 60000
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x.clamp(-65000, 65000)), (x[:, 0] > 0).long())
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 20 == 0:
        print(step, loss.item(), scaler.get_scale())
