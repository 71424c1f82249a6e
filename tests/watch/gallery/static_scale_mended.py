# expect: static_scale_overflow
# mypy: ignore-errors
# What is not finite is made 0, and so the constant scale by hand never shows.
import torch
from torch import nn

SCALE = 2.0**24
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 48), nn.Tanh(), nn.Linear(48, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
for step in range(60):
    x = torch.randn(64, 16)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
    optimizer.zero_grad()
    (loss * SCALE).backward()
    for p in model.parameters():
        p.grad.mul_(1 / SCALE).nan_to_num_(0.0, 0.0, 0.0)
    optimizer.step()
print(loss.item())
