# expect: healthy
# mypy: ignore-errors
import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)

# A physics-informed network: u'' = -u, u(0) = 0, u'(0) = 1
net = torch.nn.Sequential(torch.nn.Linear(1, 20), torch.nn.Tanh(), torch.nn.Linear(20, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
for it in range(60):
    t = (torch.rand(64, 1) * 3).requires_grad_()
    u = net(t)
    du = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
    ddu = torch.autograd.grad(du.sum(), t, create_graph=True)[0]
    zero = torch.zeros(1, 1, requires_grad=True)
    u0 = net(zero)
    du0 = torch.autograd.grad(u0.sum(), zero, create_graph=True)[0]
    loss = ((ddu + u) ** 2).mean() + u0.pow(2).mean() + (du0 - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if it % 20 == 0:
        print(it, loss.item())
