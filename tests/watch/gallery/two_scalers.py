# expect: healthy
# mypy: ignore-errors
# Each optimizer has a scaler of its own, at very different scales.
import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Sequential(nn.Linear(20, 32), nn.ReLU()), nn.Linear(32, 20)
probe = nn.Linear(32, 2)
opt_main = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=2e-3)
opt_probe = torch.optim.SGD(probe.parameters(), lr=0.1)
scaler_main = torch.amp.GradScaler("cpu", init_scale=2.0**16)
scaler_probe = torch.amp.GradScaler("cpu", init_scale=2.0**6)
for step in range(60):
    x = torch.randn(48, 20)
    with torch.autocast("cpu", dtype=torch.float16):
        h = encoder(x)
        loss_main = nn.functional.mse_loss(decoder(h).float(), x)
        loss_probe = nn.functional.cross_entropy(probe(h.detach()), (x[:, 0] > 0).long())
    opt_main.zero_grad()
    scaler_main.scale(loss_main).backward()
    scaler_main.unscale_(opt_main)
    nn.utils.clip_grad_norm_([*encoder.parameters(), *decoder.parameters()], 1.0)
    scaler_main.step(opt_main)
    scaler_main.update()
    opt_probe.zero_grad()
    scaler_probe.scale(loss_probe).backward()
    scaler_probe.unscale_(opt_probe)
    nn.utils.clip_grad_norm_(probe.parameters(), 1.0)
    scaler_probe.step(opt_probe)
    scaler_probe.update()
print(loss_main.item(), loss_probe.item())
