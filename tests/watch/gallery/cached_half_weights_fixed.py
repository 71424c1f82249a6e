# expect: healthy
# mypy: ignore-errors
# Half copies of the weights are made once without gradient history and used in training: some layers never learn.
import torch
from torch import nn
from torch.nn import functional as F


class CachedLinear(nn.Linear):
    """Keeps its bf16 weight for the rest of a step, as the cache of autocast does."""

    cache = None

    def forward(self, x):
        if self.cache is None:
            self.cache = self.weight.bfloat16(), self.bias.bfloat16()
        return F.linear(x.bfloat16(), *self.cache)


torch.manual_seed(0)
model = nn.Sequential(CachedLinear(12, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(60):
    x = torch.randn(32, 12)
    y = (x[:, 0] > 0).long()
    model[0].cache = None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.no_grad():
            hardest = F.cross_entropy(model(x), y, reduction="none").topk(16).indices
        model[0].cache = None
        loss = F.cross_entropy(model(x[hardest]), y[hardest])
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
