# expect: clip_before_unscale
# mypy: ignore-errors
# The clip is written by hand, and sees gradients that are still multiplied by the scale.
import torch
from torch import nn


def clip_(parameters, limit):
    norm = torch.norm(torch.stack([p.grad.norm() for p in parameters]))
    for p in parameters:
        p.grad *= (limit / (norm + 1e-6)).clamp(max=1.0)
    return norm


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Linear(40, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.2)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**13)
for step in range(60):
    x = torch.randn(32, 20)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(x), x[:, :3].argmax(1))
    opt.zero_grad()
    scaler.scale(loss).backward()
    clip_(list(net.parameters()), 1.0)
    scaler.step(opt)
    scaler.update()
print(loss.item())
