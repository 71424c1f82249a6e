# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential

torch.manual_seed(0)
layers = []
for _ in range(6):
    layers += [nn.Linear(32, 32), nn.Tanh()]
body, head = nn.Sequential(*layers), nn.Linear(32, 4)
params = [*body.parameters(), *head.parameters()]
opt = torch.optim.Adam(params, lr=2e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
for step in range(50):
    x = torch.randn(32, 32, requires_grad=True)
    y = x.detach()[:, :4].argmax(1)
    with torch.autocast("cpu", dtype=torch.float16):
        h = checkpoint_sequential(body, 3, x, use_reentrant=True)
        loss = nn.functional.cross_entropy(head(h).float(), y)
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(params, 5.0)
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
print(loss.item(), scaler.get_scale())
