# expect: healthy
# mypy: ignore-errors
import os
import tempfile

import torch
from torch import nn


def build():
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
    return model, torch.optim.Adam(model.parameters(), lr=1e-3), torch.amp.GradScaler("cpu")


def train(model, optimizer, scaler, start, stop):
    for step in range(start, stop):
        x = torch.randn(64, 16)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x).float().squeeze(1), x.sum(1) * 30)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    print("step", stop, "loss", loss.item(), "scale", scaler.get_scale())


torch.manual_seed(0)
path = os.path.join(tempfile.mkdtemp(), "checkpoint.pt")
model, optimizer, scaler = build()
train(model, optimizer, scaler, 0, 50)
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, path)

model, optimizer, scaler = build()
checkpoint = torch.load(path)
model.load_state_dict(checkpoint["model"])
optimizer.load_state_dict(checkpoint["optimizer"])
scaler.load_state_dict(checkpoint["scaler"])
train(model, optimizer, scaler, 50, 100)
