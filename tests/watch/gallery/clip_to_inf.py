# expect: healthy
# mypy: ignore-errors
import math

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2**13)
for step in range(60):
    x = torch.randn(48, 16)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x).float(), x[:, :4].argmax(1))
    scaler.scale(loss).backward()
    # only to log it: still scaled, and nothing is clipped
    norm = nn.utils.clip_grad_norm_(model.parameters(), math.inf) / scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    if step % 20 == 0:
        print(f"{step} loss {loss:.3f} |g| {norm:.3f}")
