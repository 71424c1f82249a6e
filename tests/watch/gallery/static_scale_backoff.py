# expect: static_scale_overflow
# mypy: ignore-errors
# A "constant" scale: growth and back-off are as good as one.
import torch
from torch import nn

torch.manual_seed(0)


def make_scaler():
    return torch.amp.GradScaler("cpu", init_scale=2.0**28, growth_factor=1.0 + 1e-9, backoff_factor=1.0 - 1e-9)


net = nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
scaler = make_scaler()
for epoch in range(4):
    for _ in range(20):
        x = torch.randn(32, 10)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(net(x).float().squeeze(1), x[:, 0])
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
    print(epoch, loss.item())
