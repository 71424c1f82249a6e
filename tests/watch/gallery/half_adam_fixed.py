# expect: healthy
# mypy: ignore-errors
# Adam in pure fp16: eps and the squared gradients are below the format's smallest number.
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(0)
dtype = torch.float
x, y = load_digits(return_X_y=True)
x, y = (torch.tensor(x) / 16).to(dtype), torch.tensor(y)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(dtype)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(60):
    b = torch.randint(len(x), (64,))
    loss = nn.functional.cross_entropy(model(x[b]).float(), y[b])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
