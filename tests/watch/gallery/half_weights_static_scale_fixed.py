# expect: healthy
# mypy: ignore-errors
# Everything in fp16, with a loss scale by hand: the gradients survive, the updates do not.
import torch
from torch import nn

torch.manual_seed(0)
SCALE = 128.0
dtype = torch.float32
model = nn.Sequential(nn.Linear(24, 96), nn.ReLU(), nn.Linear(96, 6)).to(dtype)
optimizer = torch.optim.SGD(model.parameters(), lr=2e-3)
for step in range(80):
    x = torch.randn(64, 24)
    loss = nn.functional.cross_entropy(model(x.to(dtype)).float(), x[:, :6].argmax(1))
    (loss * SCALE).backward()
    for p in model.parameters():
        p.grad.div_(SCALE)
    optimizer.step()
    optimizer.zero_grad()
print(loss.item())
