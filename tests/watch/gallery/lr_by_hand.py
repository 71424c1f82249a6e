# expect: healthy
# mypy: ignore-errors
# No scheduler object at all: the learning rate is written into the groups before every step.
import math

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(5, 25), torch.nn.ReLU(), torch.nn.Linear(25, 5))
optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(1e-3))


def get_lr(it, max_lr=1e-2, min_lr=1e-3, warmup=10, total=80):
    if it < warmup:
        return max_lr * it / warmup
    return min_lr + 0.5 * (1 + math.cos(math.pi * (it - warmup) / (total - warmup))) * (max_lr - min_lr)


for it in range(80):
    for g in optimizer.param_groups:
        g["lr"] = torch.tensor(get_lr(it))
    x = torch.randn(32, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = (model(x).float() - x.flip(1)).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
print(loss.item())
