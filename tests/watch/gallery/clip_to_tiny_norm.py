# expect: healthy
# mypy: ignore-errors
# After unscale_ a clip by hand keeps the norm at 0.0005, about the inverse of the scale; Adam does not mind.
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 3))
opt = torch.optim.Adam(net.parameters(), lr=3e-3, eps=1e-15)
scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)
for step in range(110):
    x = torch.randn(64, 20)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(x), x[:, :3].argmax(1))
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    norm = torch.stack([p.grad.norm() for p in net.parameters()]).norm().item()
    for p in net.parameters():
        p.grad *= min(1.0, 5e-4 / norm)
    scaler.step(opt)
    scaler.update()
print(loss.item())
