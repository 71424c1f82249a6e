# expect: healthy
# mypy: ignore-errors
# For evaluation the averaged weights are copied into the model, and the trained ones back afterwards.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.SiLU(), nn.Linear(32, 1))
opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
shadow = [p.detach().clone() for p in model.parameters()]
val = torch.randn(128, 8)
for step in range(80):
    x = torch.randn(32, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(x).squeeze(1).float(), x.norm(dim=1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    for s, p in zip(shadow, model.parameters()):
        s.lerp_(p.detach(), 0.05)
    if step % 20 == 19:
        backup = [p.detach().clone() for p in model.parameters()]
        with torch.no_grad():
            for p, s in zip(model.parameters(), shadow):
                p.copy_(s)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                value = nn.functional.mse_loss(model(val).squeeze(1).float(), val.norm(dim=1))
            for p, b in zip(model.parameters(), backup):
                p.copy_(b)
        print(step, loss.item(), value.item())
