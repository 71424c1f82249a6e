# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, d, keep):
        super().__init__()
        self.f = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))
        self.keep = keep

    def forward(self, x):
        if self.training and torch.rand(()) > self.keep:
            return x
        return x + self.f(x) / (self.keep if self.training else 1)


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), *(Residual(32, 1 - 0.12 * i) for i in range(6)), nn.Linear(32, 2))
opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
for step in range(80):
    x = torch.randn(40, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(net(x), (x[:, 0] * x[:, 1] > 0).long())
    opt.zero_grad()
    loss.backward()
    opt.step()
net.eval()
with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
    x = torch.randn(400, 8)
    print(loss.item(), (net(x).argmax(1) == (x[:, 0] * x[:, 1] > 0).long()).float().mean().item())
