# expect: healthy
# mypy: ignore-errors
import copy

import torch
from torch import nn


class EMA:
    def __init__(self, model, decay=0.95):
        self.module = copy.deepcopy(model).eval()
        self.decay = decay
        for p in self.module.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for e, p in zip(self.module.state_dict().values(), model.state_dict().values()):
            if e.dtype.is_floating_point:
                e.mul_(self.decay).add_(p, alpha=1 - self.decay)
            else:
                e.copy_(p)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(20, 50), nn.BatchNorm1d(50), nn.ReLU(), nn.Linear(50, 2))
ema = EMA(model)
opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True)
val_x = torch.randn(200, 20)
val_y = (val_x.sum(1) > 0).long()
for step in range(90):
    x = torch.randn(32, 20)
    y = (x.sum(1) > 0).long()
    with torch.autocast("cpu", torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    ema.update(model)
    if step % 30 == 29:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            print(step, (ema.module(val_x).argmax(1) == val_y).float().mean().item())
