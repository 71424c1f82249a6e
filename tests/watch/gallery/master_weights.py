# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)).bfloat16()
# fp32 copies that the optimizer owns; the bf16 model only computes
master = [p.detach().clone().float() for p in model.parameters()]
for m in master:
    m.requires_grad = True
optimizer = torch.optim.AdamW(master, lr=1e-3)
teacher = torch.randn(32, 8)

for step in range(80):
    x = torch.randn(64, 32)
    target = (x @ teacher).tanh()
    loss = ((model(x.bfloat16()).float() - target) ** 2).mean()
    model.zero_grad()
    loss.backward()
    for p, m in zip(model.parameters(), master):
        m.grad = p.grad.float()
    torch.nn.utils.clip_grad_norm_(master, 1.0)
    optimizer.step()
    with torch.no_grad():
        for p, m in zip(model.parameters(), master):
            p.copy_(m)
    if step % 20 == 0:
        print(step, loss.item())
