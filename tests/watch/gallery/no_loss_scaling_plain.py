# expect: fp16_no_loss_scaling
# or: not_enough_evidence
# mypy: ignore-errors
# A small loss: every gradient is below the smallest fp16 number, and Adam would have made use of them.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-16)
for step in range(60):
    x = torch.randn(128, 64)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x).float().squeeze(1) * 1e-3, x[:, 0] * 1e-3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
