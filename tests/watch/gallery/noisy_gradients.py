# expect: healthy
# mypy: ignore-errors
# Differential privacy in the small: every sample's gradient is clipped, and noise is added to the sum.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(12, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
C, sigma = 1.0, 0.3
for step in range(40):
    x = torch.randn(8, 12)
    y = (x[:, 0] > 0).long()
    total = [torch.zeros_like(p) for p in model.parameters()]
    for xi, yi in zip(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(xi[None]), yi[None])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), C)
        for t, p in zip(total, model.parameters()):
            t += p.grad
    for t, p in zip(total, model.parameters()):
        p.grad = (t + sigma * C * torch.randn_like(t)) / len(x)
    optimizer.step()
print(loss.item())
