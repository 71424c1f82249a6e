# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn

torch.manual_seed(0)
netG = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 2))
netD = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 1))
optG = torch.optim.Adam(netG.parameters(), lr=5e-4)
optD = torch.optim.Adam(netD.parameters(), lr=5e-4)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
bce = nn.functional.binary_cross_entropy_with_logits

for it in range(50):
    real = torch.randn(32, 2) * 0.2 + torch.tensor([1.0, -1.0])
    z = torch.randn(32, 8)
    # discriminator
    for p in netD.parameters():
        p.requires_grad = True
    with torch.autocast("cpu", torch.float16):
        fake = netG(z)
        out_real, out_fake = netD(real), netD(fake.detach())
        lossD = bce(out_real.float(), torch.ones(32, 1)) + bce(out_fake.float(), torch.zeros(32, 1))
    optD.zero_grad()
    scaler.scale(lossD).backward()
    scaler.step(optD)
    # generator
    for p in netD.parameters():
        p.requires_grad = False
    with torch.autocast("cpu", torch.float16):
        lossG = bce(netD(fake).float(), torch.ones(32, 1))
    optG.zero_grad()
    scaler.scale(lossG).backward()
    scaler.step(optG)
    scaler.update()
print(lossD.item(), lossG.item(), scaler.get_scale())
