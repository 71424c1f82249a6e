# expect: healthy
# mypy: ignore-errors
# The same by a module around a layer, and without autocast.
import torch
from torch import nn
from torch.nn import functional as F


class Half(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.linear = nn.Linear(i, o)
        self.cache = None

    def forward(self, x):
        if self.cache is None:
            self.cache = self.linear.weight.bfloat16(), self.linear.bias.bfloat16()
        return F.linear(x.bfloat16(), *self.cache).float()


torch.manual_seed(0)
first, second = Half(12, 32), nn.Linear(32, 2)
opt = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=3e-3)
for step in range(60):
    x = torch.randn(32, 12)
    y = (x[:, 0] > 0).long()
    first.cache = None
    with torch.no_grad():
        hardest = F.cross_entropy(second(first(x).relu()), y, reduction="none").topk(16).indices
    first.cache = None
    loss = F.cross_entropy(second(first(x[hardest]).relu()), y[hardest])
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
