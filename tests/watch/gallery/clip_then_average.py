# expect: healthy
# mypy: ignore-errors
# Four micro-batches are clipped together and averaged afterwards, in fp16 whose gradients are large enough unscaled.
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Linear(40, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.2)
for step in range(60):
    opt.zero_grad()
    for _ in range(4):
        x = torch.randn(8, 20)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(net(x), x[:, :3].argmax(1))
        loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 4.0)
    for p in net.parameters():
        p.grad /= 4
    opt.step()
print(loss.item())
