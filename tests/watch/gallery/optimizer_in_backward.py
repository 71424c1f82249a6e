# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))
optimizer_dict = {p: torch.optim.Adam([p], lr=2e-3, foreach=False) for p in model.parameters()}


def optimizer_hook(parameter):
    optimizer_dict[parameter].step()
    optimizer_dict[parameter].zero_grad()


for p in model.parameters():
    p.register_post_accumulate_grad_hook(optimizer_hook)

for step in range(60):
    x = torch.randn(64, 12)
    loss = (model(x).squeeze(1) - x[:, 0] * 2 + x[:, 1]).pow(2).mean()
    loss.backward()
    if step % 15 == 0:
        print(step, loss.item())
