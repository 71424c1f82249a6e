# expect: healthy
# mypy: ignore-errors
# AdamW on bf16 weights: moments in fp32, and the result rounded at random, right on average.
import torch
from torch import nn


class AdamSR(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for g in self.param_groups:
            for p in g["params"]:
                s = self.state[p]
                if not s:
                    s.update(
                        n=0, m=torch.zeros_like(p, dtype=torch.float32), v=torch.zeros_like(p, dtype=torch.float32)
                    )
                s["n"] += 1
                grad = p.grad.float()
                s["m"].lerp_(grad, 1 - g["betas"][0])
                s["v"].lerp_(grad * grad, 1 - g["betas"][1])
                m = s["m"] / (1 - g["betas"][0] ** s["n"])
                v = s["v"] / (1 - g["betas"][1] ** s["n"])
                exact = p.float() - g["lr"] * m / (v.sqrt() + g["eps"])
                noise = torch.randint_like(exact, 0, 65536, dtype=torch.int32)
                p.copy_(((exact.view(torch.int32) + noise) & -65536).view(torch.float32))


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)).bfloat16()
opt = AdamSR(net.parameters(), lr=3e-4)
for step in range(100):
    x = torch.randn(64, 16)
    loss = (net(x.bfloat16()).float() - x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 25 == 0:
        print(step, loss.item())
