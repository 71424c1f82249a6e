# expect: healthy
# mypy: ignore-errors
# Discriminative learning rates: the first group starts at exactly 0 and is warmed up later.
import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Sequential(nn.Linear(10, 64), nn.ReLU()), nn.Linear(64, 3)
opt = torch.optim.Adam([{"params": body.parameters(), "lr": 0.0}, {"params": head.parameters(), "lr": 5e-3}])
for step in range(80):
    if step == 40:
        opt.param_groups[0]["lr"] = 5e-4
    x = torch.randn(32, 10)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(head(body(x)), x[:, :3].argmax(1))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
