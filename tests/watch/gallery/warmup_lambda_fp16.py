# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

torch.manual_seed(0)
WARMUP = 20
model = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 24))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = LambdaLR(optimizer, lambda it: min(1.0, (it + 1) / WARMUP))
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**22)
for step in range(80):
    x = torch.randn(32, 24)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x).float(), x.roll(1, dims=1))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scale_before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() >= scale_before:
        scheduler.step()
    if step % 20 == 0:
        print(step, loss.item(), scheduler.get_last_lr()[0])
