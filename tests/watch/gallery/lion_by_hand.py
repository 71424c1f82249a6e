# expect: healthy
# mypy: ignore-errors
# Gradients by torch.autograd.grad, updates by hand: no backward(), no optimizer.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(20, 40), nn.GELU(), nn.Linear(40, 4))
moments = {p: torch.zeros_like(p) for p in model.parameters()}
for step in range(80):
    x = torch.randn(64, 20)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x).float(), x[:, :4].argmax(1))
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    with torch.no_grad():
        for p, gradient in zip(model.parameters(), gradients):
            p -= 1e-3 * (0.9 * moments[p] + 0.1 * gradient).sign()
            moments[p].mul_(0.99).add_(gradient, alpha=0.01)
print(loss.item())
