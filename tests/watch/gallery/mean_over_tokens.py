# expect: healthy
# mypy: ignore-errors
# The loss is a sum over 900 tokens; after unscale_ the gradients become those of the mean.
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Embedding(30, 24), nn.Linear(24, 30))
opt = torch.optim.SGD(net.parameters(), lr=1.0)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(60):
    tokens = torch.randint(0, 30, (30, 30))
    with torch.autocast("cpu", dtype=torch.float16):
        logits = net(tokens)
    loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), (tokens + 1).flatten() % 30, reduction="sum")
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    for p in net.parameters():
        p.grad /= tokens.numel()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
print(loss.item() / 900)
