# expect: healthy
# level: full
# mypy: ignore-errors
# Trained in fp32, validated under bf16 autocast in batches: the outputs are the same to three digits.
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
data = TensorDataset(torch.as_tensor(images).float().reshape(-1, 1, 8, 8) / 16, torch.as_tensor(labels))
train, val = torch.utils.data.random_split(data, [1400, len(data) - 1400])
net = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.Flatten(),
    nn.Dropout(0.1),
    nn.Linear(512, 10),
)
optimizer = torch.optim.Adam(net.parameters(), 1e-3)
for epoch in range(3):
    net.train()
    for x, y in DataLoader(train, 50, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    net.eval()
    hits = 0
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        for x, y in DataLoader(val, 100):
            hits += (net(x).argmax(1) == y).sum().item()
    print(epoch, loss.item(), hits / len(val))
