# expect: healthy
# mypy: ignore-errors
# The weights make a round trip through bf16 after each step, rounded at random: on average nothing is lost.
import torch
from torch import nn


def at_random(exact):
    bits = exact.view(torch.int32)
    return ((bits + torch.randint_like(bits, 0, 1 << 16)) & -65536).view(torch.float32)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 6))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(120):
    x = torch.randn(64, 24)
    loss = nn.functional.cross_entropy(model(x), x[:, :6].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(at_random(p))
print(loss.item())
