# expect: healthy
# mypy: ignore-errors
# Two tasks with an optimizer each; both hold the weights that the tasks share.
import torch
from torch import nn

torch.manual_seed(0)
table, first, second = nn.Embedding(80, 24), nn.Linear(24, 8), nn.Linear(24, 4)
ours = torch.optim.SGD([*table.parameters(), *first.parameters()], lr=0.5)
theirs = torch.optim.SGD([*second.parameters()], lr=0.5)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(60):
    rows = torch.randint(0, 80, (64,))
    ours.zero_grad()
    theirs.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        found = table(rows)
        loss = nn.functional.cross_entropy(first(found), rows % 8)
        loss = loss + nn.functional.cross_entropy(second(found), rows % 4)
    scaler.scale(loss).backward()
    for optimizer in (ours, theirs):
        scaler.unscale_(optimizer)
    for optimizer in (ours, theirs):
        scaler.step(optimizer)
    scaler.update()
print(loss.item())
