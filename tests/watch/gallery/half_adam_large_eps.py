# expect: low_precision_weights
# mypy: ignore-errors
# Somebody raised eps, so that nothing divides by zero; the updates round away all the same.
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(32, 64), nn.Linear(64, 64), nn.Linear(64, 2)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x)


torch.manual_seed(0)
net, cast = Net().half(), torch.Tensor.half
opt = torch.optim.Adam(net.parameters(), lr=2e-5, eps=1e-3)
for step in range(80):
    x = torch.randn(128, 32)
    loss = nn.functional.cross_entropy(net(cast(x)).float(), (x.sum(1) > 0).long())
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
