# expect: low_precision_weights
# mypy: ignore-errors
# An optimizer of one's own computes in bf16, and stores what comes out in fp32.
import torch
from torch import nn


class HalfSGD(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                new = p - group["lr"] * p.grad
                p.copy_(new.bfloat16())


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 6))
optimizer = HalfSGD(model.parameters(), lr=2e-3)
for step in range(80):
    x = torch.randn(64, 24)
    loss = nn.functional.cross_entropy(model(x), x[:, :6].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
