# expect: healthy
# mypy: ignore-errors
# bf16 weights with Kahan summation: what a step could not store is kept and added to the next one.
import torch
from torch import nn


class KahanSGD(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "compensation" not in state:
                    state["compensation"] = torch.zeros_like(p)
                y = -group["lr"] * p.grad + state["compensation"]
                old = p.clone()
                p.add_(y)
                state["compensation"] = y - (p - old)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1)).bfloat16()
opt = KahanSGD(model.parameters(), lr=0.01)
for step in range(120):
    x = torch.randn(64, 16)
    loss = (model(x.bfloat16()).float().squeeze(1) - x[:, 0]).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, loss.item())
