# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))
dtype = torch.float32
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
for step in range(100):
    x = torch.randn(32, 64)
    y = model(x.to(dtype))
    loss = nn.functional.mse_loss(y.float(), x.roll(3, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item())
