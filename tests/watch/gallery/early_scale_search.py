# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")  # 65536, too large for this loss
skipped = 0
for step in range(100):
    x = torch.randn(64, 32)
    y = x.sum(1) * 10
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x).squeeze(1).float(), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    skipped += scaler.get_scale() < before
print("loss", loss.item(), "scale", scaler.get_scale(), "skipped", skipped)
