# expect: healthy
# mypy: ignore-errors
# Forward pass and autocast are compiled, the scaler is outside.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=1024.0)


@torch.compile(backend="eager")
def loss_of(x):
    with torch.autocast("cpu", dtype=torch.float16):
        return nn.functional.cross_entropy(model(x), x[:, :3].argmax(1))


for step in range(60):
    loss = loss_of(torch.randn(32, 16))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(loss.item())
