# expect: healthy
# mypy: ignore-errors
# No unscale_: the fused kernel divides by the scale itself. The norm is only measured.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 6))
opt = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.1, total_iters=60)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
for step in range(60):
    x = torch.randn(48, 24)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), x[:, :6].argmax(1))
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    sched.step()
print(loss.item(), scaler.get_scale())
