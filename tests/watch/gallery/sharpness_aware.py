# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn


class SAM:
    def __init__(self, params, base, rho=0.05):
        self.params, self.base, self.rho = list(params), base, rho

    def first_step(self):
        norm = torch.stack([p.grad.norm() for p in self.params]).norm()
        self.e = [p.grad * self.rho / (norm + 1e-12) for p in self.params]
        with torch.no_grad():
            for p, e in zip(self.params, self.e):
                p.add_(e)
        self.base.zero_grad()

    def second_step(self):
        with torch.no_grad():
            for p, e in zip(self.params, self.e):
                p.sub_(e)
        self.base.step()
        self.base.zero_grad()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 2))
sam = SAM(model.parameters(), torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
for step in range(60):
    x = torch.randn(64, 10)
    y = (x.norm(dim=1) > 3.1).long()
    nn.functional.cross_entropy(model(x), y).backward()
    sam.first_step()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    sam.second_step()
print(loss.item())
