# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 6))
opt = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
for step in range(60):
    x = torch.randn(48, 24)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), x[:, :6].argmax(1))
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    scaler.step(opt)
    scaler.update()
print(loss.item(), scaler.get_scale())
