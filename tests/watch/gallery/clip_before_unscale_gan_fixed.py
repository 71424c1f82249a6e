# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_ as clip

torch.manual_seed(0)
G, D = (
    nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2)),
    nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1)),
)
og, od = torch.optim.Adam(G.parameters(), 1e-3), torch.optim.SGD(D.parameters(), 0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)
softplus = nn.functional.softplus
for it in range(60):
    real = torch.randn(32, 2) + 2
    with torch.autocast("cpu", dtype=torch.float16):
        fake = G(torch.randn(32, 6))
        ld = softplus(-D(real).float()).mean() + softplus(D(fake.detach()).float()).mean()
    od.zero_grad()
    scaler.scale(ld).backward()
    scaler.unscale_(od)
    clip(D.parameters(), 0.25)
    scaler.step(od)
    with torch.autocast("cpu", dtype=torch.float16):
        lg = softplus(-D(fake).float()).mean()
    og.zero_grad()
    scaler.scale(lg).backward()
    scaler.unscale_(og)
    clip(G.parameters(), 0.25)
    scaler.step(og)
    scaler.update()
print(ld.item(), lg.item())
