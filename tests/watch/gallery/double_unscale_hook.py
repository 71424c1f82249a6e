# expect: double_unscale
# mypy: ignore-errors
# A step hook of the optimizer divides by the scale, which unscale_ has done already.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(12, 36), nn.ReLU(), nn.Linear(36, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
FACTOR = scaler.get_scale()


def divide(optimizer, args, kwargs):
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad.div_(FACTOR)


optimizer.register_step_pre_hook(divide)
for step in range(60):
    x = torch.randn(32, 12)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    scaler.step(optimizer)
    scaler.update()
print(loss.item())
