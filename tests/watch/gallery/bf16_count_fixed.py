# expect: healthy
# mypy: ignore-errors
import torch
from sklearn.datasets import load_digits
from torch import nn


def accuracy(model, x, y):
    """Correct ones are counted in the model's own format."""
    correct = torch.tensor(0, dtype=torch.float32)
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        for xb, yb in zip(x.split(64), y.split(64)):
            hit = (model(xb).argmax(1) == yb).to(correct.dtype)
            correct = correct + hit.sum()
    model.train()
    return correct.item() / len(x)


torch.manual_seed(0)
x, y = load_digits(return_X_y=True)
x, y = torch.tensor(x, dtype=torch.float32) / 16, torch.tensor(y)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(3):
    for _ in range(20):
        b = torch.randint(len(x), (64,))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x[b]), y[b])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item(), accuracy(model, x, y))
