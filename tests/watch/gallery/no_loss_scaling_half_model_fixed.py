# expect: healthy
# mypy: ignore-errors
# The model is in fp16, its master weights in fp32; one of several tasks has a small weight.
import torch
from torch import nn

SCALE = 4096.0
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(24, 64), nn.Tanh(), nn.Linear(64, 5)).half()
master = [p.detach().float().requires_grad_() for p in model.parameters()]
optimizer = torch.optim.Adam(master, lr=2e-3, eps=1e-12)
for step in range(60):
    x = torch.randn(64, 24)
    loss = nn.functional.cross_entropy(model(x.half()).float(), x[:, :5].argmax(1)) * 2e-5
    model.zero_grad()
    (loss * SCALE).backward()
    for ours, theirs in zip(master, model.parameters()):
        ours.grad = theirs.grad.float() / SCALE
    optimizer.step()
    with torch.no_grad():
        for ours, theirs in zip(master, model.parameters()):
            theirs.copy_(ours)
print(loss.item())
