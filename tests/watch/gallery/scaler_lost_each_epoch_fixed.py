# expect: healthy
# mypy: ignore-errors
# An epoch is a function, and so much is set up in it.
import torch
from torch import nn


def epoch(model, optimizer, scaler, steps):
    for _ in range(steps):
        x = torch.randn(32, 12)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.huber_loss(model(x).float(), 4 * x[:, :3], reduction="sum")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return loss.item()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(12, 48), nn.ELU(), nn.Linear(48, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**26)
for number in range(4):
    print(number, epoch(model, optimizer, scaler, 25))
