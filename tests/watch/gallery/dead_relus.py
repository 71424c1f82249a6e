# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))
with torch.no_grad():  # nine units of ten never fire, and nobody noticed
    model[0].bias[:230] = -30.0
    model[2].bias[:230] = -30.0
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(80):
    x = torch.randn(64, 10)
    loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
