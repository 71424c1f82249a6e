# expect: healthy
# mypy: ignore-errors
# A hook on each weight keeps its gradient small; it sees the gradient of the scaled loss.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(24, 96), nn.Tanh(), nn.Linear(96, 4))
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
for weight in model.parameters():
    weight.register_hook(lambda grad: grad.clamp(-0.2 * scaler.get_scale(), 0.2 * scaler.get_scale()))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(60):
    x = torch.randn(64, 24)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(loss.item())
