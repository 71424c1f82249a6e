# expect: healthy
# mypy: ignore-errors
# unscale_, then a helper that divides again before it clips: the clip sees what the optimizer gets.
import torch
from torch import nn


def finish(parameters, scale, limit=1.0):
    for p in parameters:
        p.grad.div_(1.0)
    nn.utils.clip_grad_norm_(parameters, limit)


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 2))
parameters = list(net.parameters())
opt = torch.optim.SGD(parameters, lr=0.3)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
for step in range(60):
    x = torch.randn(32, 10)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(x), (x[:, 2] > 0).long())
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    finish(parameters, scaler.get_scale())
    scaler.step(opt)
    scaler.update()
print(loss.item())
