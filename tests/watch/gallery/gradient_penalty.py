# expect: healthy
# mypy: ignore-errors
import torch
from torch import autograd, nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(2, 32), nn.SiLU(), nn.Linear(32, 1))
gen = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 2))
oc = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
og = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.0, 0.9))


def penalty(real, fake, weight=10.0):
    eps = torch.rand(len(real), 1)
    mix = (eps * real + (1 - eps) * fake).requires_grad_(True)
    (g,) = autograd.grad(critic(mix).sum(), mix, create_graph=True)
    return weight * ((g.norm(2, dim=1) - 1) ** 2).mean()


for it in range(30):
    for _ in range(2):
        real = torch.randn(48, 2) @ torch.tensor([[1.0, 0.5], [0.0, 0.3]])
        fake = gen(torch.randn(48, 3)).detach()
        loss_c = critic(fake).mean() - critic(real).mean() + penalty(real, fake)
        oc.zero_grad()
        loss_c.backward()
        oc.step()
    loss_g = -critic(gen(torch.randn(48, 3))).mean()
    og.zero_grad()
    loss_g.backward()
    og.step()
print(loss_c.item(), loss_g.item())
