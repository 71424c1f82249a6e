# expect: healthy
# level: full
# mypy: ignore-errors
# A forecast of prices around 2000 is validated with rounded weights put in the place of the trained ones.
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
t = torch.rand(800, 1) * 4
x = torch.cat([t, t**2, torch.randn(800, 2)], 1)
y = 2000 + 3 * torch.sin(3 * t)
net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
nn.init.constant_(net[-1].bias, 2000.0)
opt = torch.optim.Adam(net.parameters(), 3e-3)


def validate():
    precision = torch.float32
    weights = {name: weight.to(precision) for name, weight in net.named_parameters()}
    with torch.no_grad():
        predicted = functional_call(net, weights, (x[600:].to(precision),))
    return nn.functional.mse_loss(predicted.float(), y[600:]).item()


for step in range(120):
    picked = torch.randint(0, 600, (64,))
    loss = nn.functional.mse_loss(net(x[picked]), y[picked])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 40 == 39:
        print(step, loss.item(), validate())
