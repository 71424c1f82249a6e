# expect: healthy
# mypy: ignore-errors
# The fractional-epoch form of CosineAnnealingWarmRestarts, and a scaler that has settled before.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 30), nn.ReLU(), nn.Linear(30, 3))
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
sch = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=2)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
iters = 20
for epoch in range(4):
    for i in range(iters):
        x = torch.randn(40, 10)
        with torch.autocast("cpu", torch.float16):
            loss = nn.functional.cross_entropy(model(x), x[:, :3].argmax(1))
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        sch.step(epoch + i / iters)
    print(epoch, loss.item(), sch.get_last_lr())
