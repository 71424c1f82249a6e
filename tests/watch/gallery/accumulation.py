# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
ACCUM = 4
features = torch.randn(1280, 20)
labels = (features[:, 0] * features[:, 1] > 0).float()
dataloader = DataLoader(TensorDataset(features, labels), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(20, 64), nn.SiLU(), nn.Linear(64, 1), nn.Flatten(0))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
optimizer.zero_grad()
total = 0.0
for epoch in range(2):
    for i, (xb, yb) in enumerate(dataloader):
        loss = nn.functional.binary_cross_entropy_with_logits(model(xb), yb) / ACCUM
        loss.backward()
        total += loss.item()
        if (i + 1) % ACCUM == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    print("epoch", epoch, "loss", total / len(dataloader) * ACCUM)
    total = 0.0
