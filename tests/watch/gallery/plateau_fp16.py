# expect: healthy
# mypy: ignore-errors
# One advance for each validation; the first steps are skipped while the scale is found.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", patience=1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
val_x = torch.randn(100, 12)
for epoch in range(5):
    model.train()
    for _ in range(16):
        x = torch.randn(32, 12)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x).float().squeeze(1), x[:, 0] * 2)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        val_loss = nn.functional.mse_loss(model(val_x).float().squeeze(1), val_x[:, 0] * 2)
    scheduler.step(val_loss)
    print(epoch, loss.item(), val_loss.item(), scaler.get_scale())
