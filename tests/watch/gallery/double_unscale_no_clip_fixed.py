# expect: healthy
# mypy: ignore-errors
# Gradients are divided by hand to log them, and once more inside scaler.step.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 48), nn.Tanh(), nn.Linear(48, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)
for step in range(80):
    x = torch.randn(64, 16)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x).float().squeeze(1), x[:, 0])
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    inverse = 1.0 / scaler.get_scale()
    norm = sum(p.grad.mul(inverse).norm() ** 2 for p in model.parameters()) ** 0.5
    scaler.step(optimizer)
    scaler.update()
    if step % 20 == 0:
        print(step, loss.item(), norm.item())
