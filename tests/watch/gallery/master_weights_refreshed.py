# expect: low_precision_weights
# mypy: ignore-errors
# There are fp32 master weights, but each step begins by copying the rounded bf16 weights back into them.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)).bfloat16()
master = [p.detach().clone().float().requires_grad_() for p in model.parameters()]
optimizer = torch.optim.AdamW(master, lr=5e-5)
for step in range(80):
    x = torch.randn(64, 32)
    loss = (model(x.bfloat16()).float() - x[:, :8]).square().mean()
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p, m in zip(model.parameters(), master):
            m.copy_(p)
            m.grad = p.grad.float()
    optimizer.step()
    with torch.no_grad():
        for p, m in zip(model.parameters(), master):
            p.copy_(m)
print(loss.item())
