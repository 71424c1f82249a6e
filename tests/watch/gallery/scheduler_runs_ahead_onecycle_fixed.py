# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=80)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
for step in range(80):
    x = torch.randn(64, 20)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x).float().squeeze(1), x[:, 0] + x[:, 1])
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() >= before:
        scheduler.step()
    if step % 20 == 0:
        print(step, loss.item(), scheduler.get_last_lr()[0])
