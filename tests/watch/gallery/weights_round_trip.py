# expect: low_precision_weights
# mypy: ignore-errors
# After each step the weights are published in bf16, and taken back from there.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 6))
published = {}


def publish():
    for name, p in model.named_parameters():
        published[name] = p.detach().bfloat16()
        p.data = published[name].float()


publish()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-5)
for step in range(80):
    x = torch.randn(64, 24)
    loss = nn.functional.cross_entropy(model(x), x[:, :6].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    publish()
print(loss.item())
