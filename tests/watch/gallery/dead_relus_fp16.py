# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))
with torch.no_grad():
    model[0].bias[:110] = -30.0
opt = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = torch.GradScaler("cpu")
for step in range(80):
    x = torch.randn(64, 10)
    with torch.autocast("cpu", dtype=torch.half):
        loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
print(loss.item(), scaler.get_scale())
