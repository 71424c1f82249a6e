# expect: needless_scaler_with_bf16
# mypy: ignore-errors
# autocast was taken out while looking for a bug; the scaler was forgotten.
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def loader():
    x, y = load_digits(return_X_y=True)
    return DataLoader(TensorDataset(torch.tensor(x).float() / 16, torch.tensor(y)), batch_size=64, shuffle=True)


def fit(model, data, epochs=2):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", enabled=True)
    for epoch in range(epochs):
        for x, y in data:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        print(epoch, loss.item())


torch.manual_seed(0)
fit(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)), loader())
