# expect: healthy
# mypy: ignore-errors
import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR

torch.manual_seed(0)
EPOCHS, STEPS = 3, 25
model = nn.Sequential(nn.Linear(30, 60), nn.BatchNorm1d(60), nn.ReLU(), nn.Linear(60, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = OneCycleLR(optimizer, max_lr=1e-2, epochs=EPOCHS, steps_per_epoch=STEPS)
for epoch in range(EPOCHS):
    model.train()
    for _ in range(STEPS):
        x = torch.randn(64, 30)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.huber_loss(model(x).squeeze(1).float(), x[:, :3].sum(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    print(epoch, loss.item(), scheduler.get_last_lr())
