# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(18, 36), nn.Dropout(0.2), nn.ReLU(), nn.Linear(36, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
amp = lambda: torch.autocast("cpu", dtype=torch.bfloat16)
x_val = torch.randn(256, 18)


@torch.no_grad()
def evaluate():
    model.eval()
    with amp():
        mae = (model(x_val).float().squeeze(1) - x_val[:, 0]).abs().mean().item()
    model.train()
    return mae


for step in range(90):
    x = torch.randn(64, 18)
    with amp():
        loss = nn.functional.l1_loss(model(x).float().squeeze(1), x[:, 0])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 30 == 0:
        print(step, loss.item(), evaluate())
