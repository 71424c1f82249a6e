# expect: healthy
# mypy: ignore-errors
# The first training is over; its weights begin another one, which has an optimizer and a scaler of its own.
import torch
from torch import nn


def fit(model, task, steps, lr):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18)
    for _ in range(steps):
        x = torch.randn(32, 12)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x).float().squeeze(1), task(x))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return loss.item()


def build():
    return nn.Sequential(nn.Linear(12, 48), nn.GELU(), nn.Linear(48, 1))


torch.manual_seed(0)
pretrained = build()
print(fit(pretrained, lambda x: x.sum(1), 60, 3e-3))
model = build()
model.load_state_dict(pretrained.state_dict())
model[2] = nn.Linear(48, 1)
print(fit(model, lambda x: x[:, 0], 60, 1e-3))
