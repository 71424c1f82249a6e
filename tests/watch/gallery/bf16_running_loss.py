# expect: low_precision_reduction
# mypy: ignore-errors
# The average loss of an epoch is added up in bf16, which cannot count that far.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))
opt = torch.optim.SGD(model.parameters(), lr=0.01)
total = torch.zeros((), dtype=torch.bfloat16)
for step in range(100):
    x = torch.randn(32, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), x[:, :10].argmax(1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    total += loss.detach().to(total.dtype)
print("mean loss", (total / 100).item())
