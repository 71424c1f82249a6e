# expect: healthy
# mypy: ignore-errors
# The clip comes before the division by the scale, and so its limit is multiplied by it.
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Linear(40, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.2)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
for step in range(60):
    x = torch.randn(32, 20)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(x), x[:, :3].argmax(1))
    opt.zero_grad()
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.1 * scaler.get_scale())
    scaler.step(opt)
    scaler.update()
print(loss.item())
