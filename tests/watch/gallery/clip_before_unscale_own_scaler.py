# expect: clip_before_unscale
# mypy: ignore-errors
# Loss scaling by hand, as apex users wrote it: the clip comes before the division.
import torch
from torch import nn

torch.manual_seed(0)
LOSS_SCALE = 1024.0
net = nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Linear(40, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.2)
for step in range(60):
    x = torch.randn(32, 20)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(x), x[:, :3].argmax(1))
    opt.zero_grad()
    (loss * LOSS_SCALE).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    for p in net.parameters():
        p.grad.div_(LOSS_SCALE)
    opt.step()
print(loss.item())
