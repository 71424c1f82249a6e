# expect: healthy
# mypy: ignore-errors
# When validation gets worse, weights and optimizer go back to the best state; the scaler simply goes on.
import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
val = torch.randn(200, 10)
best, kept, rollbacks = float("inf"), None, 0
for epoch in range(8):
    model.train()
    for _ in range(12):
        x = torch.randn(16, 10)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x).float().squeeze(1), x[:, 0].abs())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        value = nn.functional.mse_loss(model(val).float().squeeze(1), val[:, 0].abs()).item()
    if value < best:
        best, kept = value, copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    else:
        rollbacks += 1
        model.load_state_dict(kept[0])
        optimizer.load_state_dict(kept[1])
        for group in optimizer.param_groups:
            group["lr"] *= 0.5
    print(epoch, loss.item(), value, rollbacks)
