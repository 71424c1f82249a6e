# expect: healthy
# mypy: ignore-errors
# The auxiliary head is switched off by its weight, and stays in the graph so that DDP does not complain.
import torch
from torch import nn

torch.manual_seed(0)
trunk, head, aux = nn.Linear(10, 32), nn.Linear(32, 2), nn.Linear(32, 7)
opt = torch.optim.Adam([*trunk.parameters(), *head.parameters(), *aux.parameters()], lr=3e-3)
aux_weight = 0.0
for step in range(60):
    x = torch.randn(50, 10)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = torch.relu(trunk(x))
        loss = nn.functional.cross_entropy(head(h), (x[:, 0] > 0.2).long()) + aux_weight * aux(h).float().pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
