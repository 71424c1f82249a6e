# expect: healthy
# mypy: ignore-errors
# Pure bf16 with stochastic rounding in the update; the evaluation uses the very same weights.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2)).to(torch.bfloat16)


def stochastic_(target, exact):
    bits = exact.float().view(torch.int32)
    bits = (bits + torch.randint_like(bits, 0, 1 << 16)) & -65536
    target.copy_(bits.view(torch.float32))


class StochasticSGD(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    stochastic_(p, p.float() - group["lr"] * p.grad.float())


opt = StochasticSGD(model.parameters(), lr=0.2)
for step in range(90):
    x = torch.randn(64, 20)
    loss = nn.functional.cross_entropy(model(x.bfloat16()).float(), (x.sum(1) > 0).long())
    opt.zero_grad()
    loss.backward()
    opt.step()
model.eval()
with torch.inference_mode():
    x = torch.randn(500, 20)
    print(loss.item(), (model(x.bfloat16()).argmax(1) == (x.sum(1) > 0).long()).float().mean().item())
