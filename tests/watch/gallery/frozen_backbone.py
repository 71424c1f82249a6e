# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn

torch.manual_seed(0)
backbone = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
head = nn.Linear(16, 5)
model = nn.Sequential(backbone, head)
backbone.requires_grad_(False)
backbone.eval()
# everything goes to the optimizer; what is frozen never gets a gradient
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
images = torch.randn(200, 3, 10, 10) + torch.arange(200).remainder(5).view(-1, 1, 1, 1) * 0.3
labels = torch.arange(200).remainder(5)
for step in range(60):
    pick = torch.randperm(200)[:40]
    loss = nn.functional.cross_entropy(model(images[pick]), labels[pick])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print("step", step, "loss", round(loss.item(), 4))
