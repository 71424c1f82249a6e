# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn

torch.manual_seed(0)
body = nn.Sequential(nn.Linear(20, 40), nn.ReLU())
head = nn.Linear(40, 5)
optimizer = torch.optim.SGD(
    [
        {"params": body.parameters(), "lr": 0.05, "max_norm": 0.5},
        {"params": head.parameters(), "lr": 0.2, "max_norm": 2.0},
    ],
    lr=0.1,
    momentum=0.9,
)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
for step in range(70):
    x = torch.randn(32, 20)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(head(body(x)), x[:, :5].argmax(1))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    for group in optimizer.param_groups:
        nn.utils.clip_grad_norm_(group["params"], group["max_norm"])
    scaler.step(optimizer)
    scaler.update()
print(loss.item(), scaler.get_scale())
