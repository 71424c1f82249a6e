# expect: eval_precision_mismatch
# level: full
# mypy: ignore-errors
# Validation runs on a bf16 copy to save memory; the network subtracts large numbers and needs fp32.
import copy

import torch
from torch import nn


class Encode(nn.Module):
    def forward(self, x):
        return x - 200.0


def validate(model, x, y):
    served = copy.deepcopy(model).bfloat16().eval()
    dtype = next(served.parameters()).dtype
    with torch.no_grad():
        out = served(x.to(dtype)).float()
    return (out.argmax(1) == y).float().mean().item()


torch.manual_seed(0)
model = nn.Sequential(Encode(), nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
val_x = 200 + torch.rand(400, 8)
val_y = (val_x[:, 0] > 200.3).long()
for step in range(100):
    x = 200 + torch.rand(64, 8)
    loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 200.3).long())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 25 == 24:
        print(step, loss.item(), validate(model, val_x, val_y))
